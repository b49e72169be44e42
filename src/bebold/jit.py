"""One decorator for every numba kernel, with an on-disk cache that notices edits in other files.

numba reuses a compiled kernel as long as the file it stands in is unchanged, even when a kernel that it
calls, or a constant that it froze, stands in another file and has changed. Here the cache folder's name is
a hash of the kernel's file and of every module of the package that this file imports, directly or not: an
edit to any of them starts a fresh folder, and two versions of the package never read each other's machine
code.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numba.core.config

PACKAGE = Path(__file__).resolve().parent
numba_config: Any = numba.core.config  # its settings are made at run time


def jit(function: Callable | None = None, **options: Any) -> Any:
    """Compile a function with `numba.njit` and keep the machine code on disk.

    Use as `@jit` or `@jit(fastmath=True, inline="always", ...)`; options go to `numba.njit`. Division follows
    NumPy (no exception on zero). Where no folder can be written, kernels are compiled afresh in each process.
    """
    if function is None:
        return functools.partial(jit, **options)
    options.setdefault("error_model", "numpy")
    folder = _cache_folder(Path(function.__code__.co_filename).resolve())
    options.setdefault("cache", folder is not None)
    with _numba_cache_at(folder):
        return numba.njit(**options)(function)


@contextlib.contextmanager
def _numba_cache_at(folder: Path | None) -> Iterator[None]:
    """Point numba at `folder` while a function is decorated, which is when numba fixes its cache path."""
    previous = numba_config.CACHE_DIR
    if folder is not None:
        numba_config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba_config.CACHE_DIR = previous


@functools.cache
def _cache_folder(source: Path) -> Path | None:
    """The folder for the kernels of one source file, or None where it cannot be written."""
    try:
        folder = _cache_base() / f"bebold-{_source_hash(source)}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _cache_base() -> Path:
    """NUMBA_CACHE_DIR where set, else `bebold/numba` in the user's cache folder."""
    if numba_config.CACHE_DIR:
        return Path(numba_config.CACHE_DIR)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "bebold" / "numba"


def _source_hash(source: Path) -> str:
    """Hash of a source file and of all modules of this package that it imports, directly or not."""
    found = {source, Path(__file__).resolve()}
    waiting = list(found)
    while waiting:
        new = _imported_modules(waiting.pop()) - found
        found |= new
        waiting.extend(new)
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(f"{path}".encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def _imported_modules(source: Path) -> set[Path]:
    """Files of this package that a file imports, wherever in it the import stands."""
    names = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files = {PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names}
    return {path for path in files if PACKAGE in path.parents and path.is_file()}
