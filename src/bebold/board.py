"""A board in shared memory on which the workers of one machine show each other small things, many times a second.

Through sockets each meeting of two workers costs several milliseconds, most of it waking up. Here a worker writes to
its own place, raises its flag, and watches the others' flags without going to sleep.
"""

from __future__ import annotations

import mmap
import os
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

PLACE = 4 << 20
"""Bytes a worker can show at a time."""
_LINE = 64
"""Flags are this many bytes apart: a cache line each."""
_SPINS = 2000
"""Looks at a flag before the processor is offered to others between two looks."""


class Board:
    """A file of shared memory: a flag for each worker, then two places for each, used in turn.

    A worker that has raised its flag for turn `k` may still read what others showed at `k`; nobody writes to those
    places again before turn `k + 2`, and nobody gets there before all have been at `k + 1`.
    """

    def __init__(self, path: Path, rank: int, size: int):
        self.rank, self.size = rank, size
        self.turn = 0
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _length(size))
        flags = np.frombuffer(self._memory, np.int64, size * _LINE // 8)
        self._flags = flags.reshape(size, _LINE // 8)[:, 0]
        self._lengths = flags.reshape(size, _LINE // 8)[:, 1:3]
        self._places = np.frombuffer(self._memory, np.uint8, offset=size * _LINE).reshape(2, size, PLACE)

    @staticmethod
    def supported() -> bool:
        """Whether writes are seen in the order in which they are made, which the flags rely on."""
        return platform.machine() in ("x86_64", "AMD64") and Path("/dev/shm").is_dir()

    @staticmethod
    def create(path: Path, size: int) -> bool:
        """Reserve the memory for `size` workers; False if there is not enough of it."""
        try:
            with path.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, _length(size))
        except OSError:
            path.unlink(missing_ok=True)
            return False
        return True

    def exchange(self, data: np.ndarray, check: Callable[[], None], timeout: float) -> list[np.ndarray]:
        """Show `data`, uint8 `[n]` with `n <= PLACE`, and see everybody's, in order of rank.

        What is returned are views, good until the next call.

        Parameters
        ----------
        check : called now and then while others are late; raises if one will not come
        timeout : seconds after which nobody is waited for

        Raises
        ------
        TimeoutError : one did not come in time
        """
        self.turn += 1
        side = self.turn % 2
        self._places[side, self.rank, : len(data)] = data
        self._lengths[self.rank, side] = len(data)
        self._flags[self.rank] = self.turn
        for rank in range(self.size):
            self._wait(rank, check, timeout)
        return [self._places[side, rank, : self._lengths[rank, side]] for rank in range(self.size)]

    def _wait(self, rank: int, check: Callable[[], None], timeout: float) -> None:
        flags, turn = self._flags, self.turn
        for _ in range(_SPINS):
            if flags[rank] >= turn:
                return
        deadline = time.monotonic() + timeout
        checked = time.monotonic()
        while flags[rank] < turn:
            os.sched_yield()
            if threading.active_count() > 1:
                time.sleep(0)  # unlike the above, this lets go of Python, which a thread that collects needs
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"worker {rank} did not come within {timeout:.0f} s")
            if now - checked > 0.2:
                check()
                checked = now


def _length(size: int) -> int:
    return size * _LINE + 2 * size * PLACE
