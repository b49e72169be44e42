"""One decorator for every numba kernel, with an on-disk cache that notices edits in other files.

numba reuses a compiled kernel as long as the file it stands in is unchanged, even when a kernel it calls,
in another file, has changed. Here the cache folder's name is a hash of every kernel source, so that any edit
starts a fresh folder, and two versions of the package never read each other's machine code.
"""

from __future__ import annotations

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


def jit(function: Callable | None = None, **options: Any) -> Any:
    """Compile a function with `numba.njit` and keep the machine code on disk.

    Use as `@jit` or `@jit(fastmath=True, inline="always", ...)`; options go to `numba.njit`. Division follows
    NumPy (no exception on zero). Where no folder can be written, kernels are compiled afresh in each process.
    """
    if function is None:
        return functools.partial(jit, **options)
    options.setdefault("error_model", "numpy")
    folder = _cache_folder(Path(function.__code__.co_filename).resolve().parent)
    options.setdefault("cache", folder is not None)
    with _numba_cache_at(folder):
        return numba.njit(**options)(function)


@contextlib.contextmanager
def _numba_cache_at(folder: Path | None) -> Iterator[None]:
    """Point numba at `folder` while a function is decorated, which is when numba fixes its cache path."""
    previous = numba.core.config.CACHE_DIR
    if folder is not None:
        numba.core.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.core.config.CACHE_DIR = previous


@functools.cache
def _cache_folder(room: Path) -> Path | None:
    """The folder for the kernels of one folder of sources, or None where it cannot be written."""
    folder = _cache_base() / f"bebold-{_source_hash(room)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _cache_base() -> Path:
    """NUMBA_CACHE_DIR where set, else `bebold/numba` in the user's cache folder."""
    if numba.core.config.CACHE_DIR:
        return Path(numba.core.config.CACHE_DIR)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "bebold" / "numba"


def _source_hash(room: Path) -> str:
    """Hash of every kernel source of the package and of every module beside them.

    Modules beside a kernel count because numba freezes the constants that a kernel reads from them.
    """
    kernel_files = {path for path in PACKAGE.rglob("*.py") if b"bebold.jit" in path.read_bytes()}
    digest = hashlib.sha256()
    for path in sorted(kernel_files | set(room.glob("*.py")) | {Path(__file__).resolve()}):
        digest.update(str(path.name).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
