"""What can go wrong outside this package. Each message is one sentence that names the mend."""

import difflib
import errno
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a system call says of a full disk."""


class UsageError(ValueError):
    """A request that cannot be met as it stands: exit code 2."""


class RunError(RuntimeError):
    """A run that cannot start or go on: exit code 1."""


def out_of_memory(error: BaseException) -> bool:
    """torch has an error of its own for a GPU's memory and none for the machine's."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in ("out of memory", "can't allocate"))


def read_text(path: Path) -> str:
    """The text of a file, whatever bytes are in it.

    Raises
    ------
    RunError : it cannot be read
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"cannot read {path} ({reason}); mend its permissions or restore it") from None


def look_up(kind: str, name: str, table: Mapping[str, T]) -> T:
    """The entry of this name.

    Raises
    ------
    UsageError : there is none; says which is close, or all
    """
    if name not in table:
        close = difflib.get_close_matches(name, table)
        mend = f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(table)}"
        raise UsageError(f"there is no {kind} '{name}'; {mend}")
    return table[name]
