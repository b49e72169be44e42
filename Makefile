# One command sets up and does the work. Everything is installed into .venv; runs go to runs. Outside this folder only
# caches are written: pip's, and compiled kernels in ~/.cache/bebold (NUMBA_CACHE_DIR or XDG_CACHE_HOME moves them).
# make PYTHON=python3.12 demo chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench clean

demo: .venv/installed
	$(BIN)/bebold demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto --dist loadfile

check: .venv/installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadfile

bench: .venv/installed
	$(BIN)/bebold bench

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bebold needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
