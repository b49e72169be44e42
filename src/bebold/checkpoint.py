"""Files that are either whole or not there, and that run no code when they are opened.

A checkpoint is a nested dict of tensors and plain values, written by `torch.save` and read with
`weights_only=True`. Weights alone are a safetensors file whose metadata says what they belong to.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from bebold.errors import NO_ROOM, RunError, UsageError, out_of_memory

MAGIC = "bebold checkpoint"
VERSION = 1
"""Rises when the layout changes; an older reader then refuses the file instead of misreading it."""


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state`: nested dicts and lists of tensors and plain values.

    Raises
    ------
    TypeError : `state` holds something that could not be read back without running code
    RunError : the file cannot be written (a full disk, say); an older file is untouched
    """
    content = {"magic": MAGIC, "version": VERSION, "state": _plain(state, "state")}
    with replacing(path) as file:
        writer = _Writer(file)
        torch.save(content, writer)  # type: ignore[arg-type]  # it needs `write` and `flush` alone
        if writer.error is not None:
            raise writer.error


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote, on the CPU. Never runs code from the file.

    Raises
    ------
    RunError : the file is missing, cut short, damaged, of another program, or asks for code to be run
    MemoryError, RuntimeError : it does not fit into memory; the file may be sound
    """
    mend = "use an older checkpoint or train anew"
    if not path.exists():
        raise RunError(f"there is no checkpoint {path}; {mend}")
    try:
        # torch does not compare the checksums that it writes; zipfile does.
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError):
        raise RunError(f"{path} is cut short or is no checkpoint; {mend}") from None
    if damaged is not None:
        raise RunError(f"{path} is damaged (wrong checksum in {damaged}); {mend}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the reader stumbles over, the file is not one of ours
        if out_of_memory(error):
            raise
        raise RunError(f"{path} holds more than tensors and plain values and was not opened; {mend}") from None
    if not isinstance(content, dict) or content.get("magic") != MAGIC:
        raise RunError(f"{path} was written by another program; {mend}")
    if content.get("version") != VERSION:
        raise RunError(
            f"{path} has layout {content.get('version')} and this bebold reads layout {VERSION}; "
            "use the bebold that wrote it"
        )
    if not isinstance(content.get("state"), dict):
        raise RunError(f"{path} holds no state of a run; {mend}")
    return content["state"]


def save_weights(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and a few words about them as one safetensors file."""
    # Tensors that share memory are refused by safetensors: each becomes its own.
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with replacing(path) as file:
        file.write(safetensors.torch.save(own, dict(metadata)))


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read what `save_weights` wrote: the tensors and the words.

    Raises
    ------
    RunError : there is no such file, or it is damaged or of another kind
    """
    if not path.exists():
        raise RunError(f"there are no weights {path}; a run writes them at its first checkpoint")
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, dict(file.metadata() or {})
    except (safetensors.SafetensorError, OSError) as error:
        raise RunError(
            f"{path} is damaged or is no safetensors file ({error}); resume the run to write it anew"
        ) from None


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` once it is whole and on the disk; on any error it vanishes.

    Raises
    ------
    UsageError : `path` names no file
    RunError : the file cannot be written
    """
    if not path.name:
        raise UsageError(f"'{path}' names no file; give it a name")
    temporary = temporary_for(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def temporary_for(path: Path) -> Path:
    """Where `replacing` writes what will be `path`; a process that was killed leaves it behind."""
    return path.with_name(f"{path.name}.tmp")


def cannot_write(path: Path, error: OSError) -> RunError:
    """The sentence for a file that could not be written."""
    mend = "make room there" if error.errno in NO_ROOM else "name another place or mend what is there"
    return RunError(
        f"cannot write {path} ({error.strerror or error}); {mend} and try again (`bebold resume` goes on with a run)"
    )


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Writer:
    """Remembers the first error: torch, which writes from C++, would turn it into another one."""

    def __init__(self, file: BinaryIO):
        self.file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        if self.error is None:
            try:
                self.file.write(data)
            except OSError as error:
                self.error = error
        return len(data)

    def flush(self) -> None:
        """`replacing` flushes."""


def _plain(value: Any, where: str) -> Any:
    """A copy of `value` in types that are read back without running code."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Tensor):
        tensor = value.detach().cpu()
        # Of a view, torch would write all that it is a view of.
        excess = tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
        return tensor.clone(memory_format=torch.contiguous_format) if excess else tensor
    if isinstance(value, Mapping):
        for key in value:
            if type(key) not in (int, str):
                raise TypeError(f"{where} has the key {key!r}; a checkpoint's keys are str or int")
        return {key: _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(item, f"{where}[{i}]") for i, item in enumerate(value))
    raise TypeError(
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}; "
        "a checkpoint holds tensors, numbers, strings, None, and dicts, lists and tuples of them"
    )
