"""Workers that learn together, one process per core or, under torchrun, per machine. All of torch.distributed."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from bebold.board import PLACE, Board
from bebold.errors import RunError
from bebold.optimise import Peers

TIMEOUT = timedelta(minutes=10)
"""How long a worker waits for the others."""
_PARENT = "BEBOLD_PARENT"
_MEETING = "BEBOLD_MEETING"
_MEND = "go on from the last checkpoint with `bebold resume`"


class Workers(Peers):
    """The peers of one process, rank 0 being the one that was asked to train.

    Every call is a meeting of all of them. If one has died, it raises RunError and says which.
    """

    def __init__(self, rank: int = 0, size: int = 1):
        self.rank = rank
        self.size = size
        self.children: list[subprocess.Popen[bytes]] = []
        self.board: Board | None = None

    def start(self, module: str) -> None:
        """As rank 0, start the others, which run `module.work()`, and meet them.

        They are fresh interpreters, so that a script that trains needs no `if __name__ == "__main__"`. They inherit
        no open file, are deaf to SIGINT and SIGTERM, and die with this process.
        """
        if self.size == 1:
            return
        meeting = tempfile.mkdtemp(prefix="bebold-", dir="/dev/shm" if Board.supported() else None)
        try:
            board = Board.supported() and Board.create(Path(meeting) / "board", self.size)
            for rank in range(1, self.size):
                command, environment = interpreter(f"from {module} import work; work()")
                environment |= {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(self.size),
                    _PARENT: str(os.getpid()),
                    _MEETING: meeting,
                }
                self.children.append(subprocess.Popen(command, env=environment, process_group=0))
            self._wait_until_ready(meeting)
            self.join(f"file://{meeting}/peers")
            if board:
                self.board = Board(Path(meeting) / "board", self.rank, self.size)
            self._meet(dist.barrier)  # until all have read where the others are
        except BaseException:
            self.close()
            raise
        finally:
            shutil.rmtree(meeting, ignore_errors=True)

    def join(self, meeting: str) -> None:
        """Meet the others where torch.distributed finds them."""
        self._meet(
            dist.init_process_group,
            "gloo",
            init_method=meeting,
            rank=self.rank,
            world_size=self.size,
            timeout=TIMEOUT,
        )

    def average_(self, tensor: Tensor) -> None:
        if self.size == 1:
            return
        parts = self._show(tensor)
        if parts is None:
            self._meet(dist.all_reduce, tensor)
        else:
            # In order of rank, so that the sum is the same everywhere.
            torch.add(parts[0], parts[1], out=tensor)
            for part in parts[2:]:
                tensor += part
        tensor /= self.size

    def gather(self, tensor: Tensor) -> Tensor:
        if self.size == 1:
            return tensor
        length = torch.tensor([len(tensor)])
        lengths = self._show(length)
        if lengths is None:
            lengths = [torch.zeros_like(length) for _ in range(self.size)]
            self._meet(dist.all_gather, lengths, length)
        counts = [int(n) for n in lengths]
        padded = tensor.new_zeros((max(counts), *tensor.shape[1:]))
        padded[: len(tensor)] = tensor
        parts = self._show(padded)
        if parts is None:
            parts = [torch.empty_like(padded) for _ in range(self.size)]
            self._meet(dist.all_gather, parts, padded)
        return torch.cat([part[:n] for part, n in zip(parts, counts, strict=True)])

    def decide(self, value: int) -> int:
        """Rank 0's value, everywhere: clocks and signals differ between processes, decisions must not."""
        if self.size == 1:
            return value
        return int(self.gather(torch.tensor([value]))[0])

    def collect(self, value: Any) -> list[Any]:
        """Everybody's values in order of rank, on rank 0; elsewhere an empty list."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        self._meet(dist.gather_object, value, values if self.rank == 0 else None)
        return values if self.rank == 0 else []

    def hand_out(self, values: list[Any] | None = None) -> Any:
        """One of rank 0's values to each."""
        if self.size == 1:
            return (values or [None])[0]
        mine: list[Any] = [None]
        self._meet(dist.scatter_object_list, mine, values if self.rank == 0 else None, src=0)
        return mine[0]

    def close(self) -> None:
        """Leave; rank 0 also ends the processes it started."""
        if dist.is_initialized():
            with suppress(RuntimeError):
                dist.destroy_process_group()
        deadline = time.monotonic() + 5
        for child in self.children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=max(0.0, deadline - time.monotonic()))
            child.kill()
            child.wait()

    def _show(self, tensor: Tensor) -> list[Tensor] | None:
        """Everybody's tensors, all of one shape, by way of the board; None if there is none or they do not fit."""
        if self.board is None or tensor.is_cuda or tensor.numel() * tensor.element_size() > PLACE:
            return None
        data = tensor.contiguous().numpy().reshape(-1).view(np.uint8)
        try:
            parts = self.board.exchange(data, self._check, TIMEOUT.total_seconds())
        except TimeoutError as error:
            raise RunError(f"{error}; {_MEND}") from None
        kind = tensor.numpy().dtype
        return [torch.from_numpy(part.view(kind)).view_as(tensor) for part in parts]

    def _check(self) -> None:
        if any(child.poll() is not None for child in self.children):
            raise RunError(f"{self._casualty()}; {_MEND}")

    def _wait_until_ready(self, meeting: str) -> None:
        """Until every child is about to join: from then on their meeting takes a moment or fails at once."""
        deadline = time.monotonic() + TIMEOUT.total_seconds()
        while len(list(Path(meeting).glob("ready-*"))) < len(self.children):
            if any(child.poll() is not None for child in self.children) or time.monotonic() > deadline:
                raise RunError(f"{self._casualty() or 'a worker did not start in time'}; try --workers 1")
            time.sleep(0.02)

    def _meet(self, collective: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            collective(*args, **kwargs)
        except RuntimeError as error:  # gloo: connection closed by peer, or nobody came in time
            reason = str(error).splitlines()[0]
            raise RunError(f"{self._casualty() or f'the workers lost touch ({reason})'}; {_MEND}") from None

    def _casualty(self) -> str | None:
        """Which child has died. One that a signal ended was the first: others then leave with an exit code."""
        deadline = time.monotonic() + 2
        while all(child.poll() is None for child in self.children) and time.monotonic() < deadline:
            time.sleep(0.02)
        ended = [(rank, c.returncode) for rank, c in enumerate(self.children, start=1) if c.poll() is not None]
        if not ended:
            return None
        rank, code = min(ended, key=lambda pair: pair[1])
        return f"worker {rank} died ({f'signal {-code}' if code < 0 else f'exit code {code}'})"


def join_workers() -> Workers | None:
    """Join the processes that `Workers.start` or torchrun describe in the environment; None if neither does."""
    started = _MEETING in os.environ
    if not started and not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        return None
    workers = Workers(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if started:
        die_with(int(os.environ[_PARENT]))
        # Rank 0 hears them and decides for all.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (Path(os.environ[_MEETING]) / f"ready-{workers.rank}").touch()
        workers.join(f"file://{os.environ[_MEETING]}/peers")
        board = Path(os.environ[_MEETING]) / "board"
        if board.exists():
            workers.board = Board(board, workers.rank, workers.size)
        workers._meet(dist.barrier)
    elif workers.size > 1:
        workers.join("env://")
    return workers


@contextmanager
def prepared_process() -> Iterator[None]:
    """One thread while this lasts. Freed memory is kept, also after: giving it back costs page faults at every
    large tensor."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            m_trim_threshold, m_mmap_threshold, size = -1, -3, 1 << 28
            libc.mallopt(m_mmap_threshold, size)
            libc.mallopt(m_trim_threshold, size)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def interpreter(code: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a fresh Python that runs `code` on one thread and finds this one's modules.

    It does not look into the present folder, where a file may have the name of a module.
    """
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    return [sys.executable, "-P", "-c", code], {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def die_with(parent: int) -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)
