"""Workers that learn together, one process per core or, under torchrun, per machine. All of torch.distributed."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bebold.errors import RunError
from bebold.optimise import Peers

TIMEOUT = timedelta(minutes=10)
_PARENT = "BEBOLD_PARENT"
_MEETING = "BEBOLD_MEETING"


class Workers(Peers):
    """The peers of one process, rank 0 being the one that was asked to train.

    Every call is a meeting of all of them. If one has died, it raises RunError and says which.
    """

    def __init__(self, rank: int = 0, size: int = 1, children: tuple[subprocess.Popen[bytes], ...] = ()):
        self.rank = rank
        self.size = size
        self.children = children

    def average_(self, tensor: Tensor) -> None:
        if self.size > 1:
            self._meet(dist.all_reduce, tensor)
            tensor /= self.size

    def gather(self, tensor: Tensor) -> Tensor:
        if self.size == 1:
            return tensor
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        self._meet(dist.all_gather, lengths, torch.tensor([len(tensor)]))
        padded = tensor.new_zeros((int(max(lengths)), *tensor.shape[1:]))
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        self._meet(dist.all_gather, parts, padded)
        return torch.cat([part[: int(n)] for part, n in zip(parts, lengths, strict=True)])

    def decide(self, value: int) -> int:
        """Rank 0's value, everywhere: clocks and signals differ between processes, decisions must not."""
        if self.size == 1:
            return value
        decision = torch.tensor([value])
        self._meet(dist.broadcast, decision, src=0)
        return int(decision)

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
        if self.size == 1:
            return
        with suppress(RuntimeError):
            dist.destroy_process_group()
        for child in self.children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=5)
            child.kill()
            child.wait()

    def _meet(self, collective: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            collective(*args, **kwargs)
        except RuntimeError as error:  # gloo: connection closed by peer, or nobody came in time
            raise RunError(self._why(error)) from None

    def _why(self, error: RuntimeError) -> str:
        mend = "go on from the last checkpoint with `bebold resume`"
        for rank, child in enumerate(self.children, start=1):
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=2)
            if child.returncode is not None:
                how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
                return f"worker {rank} died ({how}); {mend}"
        return f"the workers lost touch ({str(error).splitlines()[0]}); {mend}"


def start_workers(size: int, module: str) -> Workers:
    """Start `size - 1` processes that run `module.work()`, and join them as rank 0.

    They are fresh interpreters, so that a script that trains needs no `if __name__ == "__main__"`; they inherit no
    open file, are deaf to the terminal's Ctrl-C, and die with this process.
    """
    if size == 1:
        return Workers()
    meeting = tempfile.mkdtemp(prefix="bebold-")
    try:
        children = []
        for rank in range(1, size):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "OMP_NUM_THREADS": "1",
                _PARENT: str(os.getpid()),
                _MEETING: meeting,
            }
            command = [sys.executable, "-c", f"from {module} import work; work()"]
            children.append(subprocess.Popen(command, env=environment, process_group=0))
        workers = Workers(0, size, tuple(children))
        workers._meet(_join, f"file://{meeting}/peers", 0, size)
    finally:
        shutil.rmtree(meeting, ignore_errors=True)
    return workers


def join_workers() -> Workers | None:
    """Join the processes that `start_workers` or torchrun describe in the environment; None if neither does."""
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        return None
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if _MEETING in os.environ:
        _die_with(int(os.environ[_PARENT]))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        meeting = f"file://{os.environ[_MEETING]}/peers"
    else:
        meeting = "env://"
    workers = Workers(rank, size)
    if size > 1:
        workers._meet(_join, meeting, rank, size)
    return workers


def prepare_process() -> None:
    """One thread a process, and freed memory kept: giving it back costs page faults at every large tensor."""
    torch.set_num_threads(1)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            m_trim_threshold, m_mmap_threshold, size = -1, -3, 1 << 28
            libc.mallopt(m_mmap_threshold, size)
            libc.mallopt(m_trim_threshold, size)


def _join(meeting: str, rank: int, size: int) -> None:
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size, timeout=TIMEOUT)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)
