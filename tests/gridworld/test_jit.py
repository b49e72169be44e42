"""The cache of compiled kernels: where it is, and what makes it start afresh."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba.core.config
import pytest

from bebold import jit as jit_module
from bebold.jit import jit

# Prints a number that a kernel drew, and how often the kernel was found in and missed from the cache.
SCRIPT = """
from bebold.gridworld.random import integers, seeded_generator
print(integers(seeded_generator(0), 0, 10))
print(integers.stats.cache_hits.total(), integers.stats.cache_misses.total())
"""


def run(tmp_path: Path, **variables: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    return done.stdout.split()


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_kernels_are_compiled_once_and_kept_where_the_user_says(tmp_path: Path, variable: str) -> None:
    place = {variable: str(tmp_path / "kept")}
    assert run(tmp_path, **place) == ["8", "0", "1"]
    assert run(tmp_path, **place) == ["8", "1", "0"]
    assert list((tmp_path / "kept").rglob("*.nbc"))


def test_kernels_still_run_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file, so no folder can be made under it")
    assert run(tmp_path, XDG_CACHE_HOME=str(tmp_path / "file")) == ["8", "0", "1"]


def test_decorating_leaves_numbas_own_setting_alone() -> None:
    before = numba.core.config.CACHE_DIR

    @jit(fastmath=True)
    def double(x):
        return 2 * x

    assert double(4) == 8
    assert before == numba.core.config.CACHE_DIR


def test_an_edit_of_an_imported_module_starts_a_fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "bebold"
    (package / "room").mkdir(parents=True)
    sources = {
        "room/kernel.py": "def f():\n    from bebold.room.middle import g\n",
        "room/middle.py": "from bebold.room import constants\n",
        "room/constants.py": "A = 1\n",
        "room/other.py": "B = 1\n",
    }
    for name, text in sources.items():
        (package / name).write_text(text)
    monkeypatch.setattr(jit_module, "PACKAGE", package)

    def hashed() -> str:
        jit_module._imported_modules.cache_clear()
        return jit_module._source_hash(package / "room/kernel.py")

    first = hashed()
    (package / "room/other.py").write_text("B = 2\n")
    assert hashed() == first
    (package / "room/constants.py").write_text("A = 2\n")
    assert hashed() != first
    jit_module._imported_modules.cache_clear()
