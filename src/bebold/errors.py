"""What can go wrong outside this package. Each message is one sentence that names the mend."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class UsageError(ValueError):
    """A request that cannot be met as it stands: exit code 2."""


class RunError(RuntimeError):
    """A run that cannot start or go on: exit code 1."""


def out_of_memory(error: BaseException) -> bool:
    """torch has an error of its own for a GPU's memory and none for the machine's."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in ("out of memory", "can't allocate"))


def look_up(kind: str, name: str, table: Mapping[str, T]) -> T:
    """The entry of this name.

    Raises
    ------
    UsageError : there is none; says which is close, or all
    """
    if name not in table:
        close = difflib.get_close_matches(name, table) or list(table)
        raise UsageError(f"there is no {kind} '{name}'; did you mean {' or '.join(close)}?")
    return table[name]
