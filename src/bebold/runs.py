"""The run folder: settings, metrics, TensorBoard events, checkpoints and weights of one training run."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
from torch import Tensor

import bebold
from bebold import checkpoint, maps
from bebold.config import TrainConfig
from bebold.errors import RunError, UsageError, read_text
from bebold.events import EventFile
from bebold.gridworld.tasks import find_task
from bebold.settings import commits, origin, read_about, read_config, source_commit, to_yaml, totals_before

KEPT = 2
"""Checkpoints that stay: the newest, and one to fall back on."""
WHOLE = ("config.yaml", "metrics.jsonl", "summary.json", "weights.safetensors", maps.FILE)
"""Files that only the process which holds the folder writes, and writes whole."""

_log = logging.getLogger(__name__)


def run_folder(config: TrainConfig, root: Path) -> Path:
    """`root/<task>/<label or method>/<seed>`, the task by its short name where it has one."""
    task = find_task(config.task)
    return root / task.name.replace("/", "-") / config.name / str(config.seed)


def verdict_file(*, repaired: bool, greedy: bool) -> str:
    """What the file is called in which `bebold eval` keeps its verdict."""
    return f"evaluation{'-v1' if repaired else ''}{'-greedy' if greedy else ''}.json"


def holds_run(folder: Path) -> bool:
    """Whether there is a run to go on with: one that failed before its first update leaves settings alone."""
    return (folder / "metrics.jsonl").exists() or bool(_checkpoints(folder))


class Run:
    """One run folder, held by this process alone until `close`."""

    def __init__(self, folder: Path, lock: int, config: TrainConfig, about: dict[str, Any]):
        self.folder = folder
        self.config = config
        self._about = about
        self._lock = lock
        self._unreadable: set[Path] = set()
        self._metrics: TextIO | None = None
        self._events: EventFile | None = None
        self._purge_step: int | None = None
        self._before, self._begun = 0.0, time.monotonic()

    @classmethod
    def create(cls, config: TrainConfig, root: Path) -> Self:
        """Begin a run in its own new folder.

        Raises
        ------
        UsageError : there is a run in this folder already
        RunError : another process holds the folder, or it cannot be written
        """
        folder = run_folder(config, root)
        try:
            (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise checkpoint.cannot_write(folder, error) from error
        lock = _acquire(folder)
        try:
            if holds_run(folder):
                raise UsageError(
                    f"{folder} holds a run already; go on with `bebold resume {folder}`, "
                    "or choose another --seed or --root"
                )
            run = cls(folder, lock, config, {"version": bebold.__version__, "commit": source_commit()})
            run.write_config(config)
        except BaseException:
            os.close(lock)
            raise
        return run

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Take up the run in `folder`.

        Raises
        ------
        UsageError : there is no run in `folder`
        RunError : another process holds the folder, or it cannot be written
        """
        config, about = read_config(folder), read_about(folder)
        lock = _acquire(folder)
        try:
            _clear(folder)
            known, now = commits(about), origin()
            if now != known[-1]:
                about["resumed_with"] = [*known[1:], now]
            return cls(folder, lock, config, about)
        except BaseException:
            os.close(lock)
            raise

    def write_config(self, config: TrainConfig) -> None:
        """Write `config.yaml`: every setting, below the version and the git commits that the run was made with."""
        with checkpoint.replacing(self.folder / "config.yaml") as file:
            file.write(to_yaml(config, self._about).encode())
        self.config = config

    def note_total(self, taken: int, total: int) -> None:
        """Remember, with the next `write_config`, that `total` is asked for from here on, once `taken` steps are taken.

        What was asked for in between, without a step that was kept, is forgotten.
        """
        every = totals_before(self._about)
        notes = [list(note) for note in every if note[0] < taken]
        until = next((until for at, until in every if at >= taken), self.config.total_steps)
        self._about["total_steps_before"] = notes if until == total else [*notes, [taken, until]]

    @property
    def asked_at(self) -> int:
        """Steps taken when the present `total_steps` were asked for."""
        changes = totals_before(self._about)
        return changes[-1][0] if changes else 0

    @property
    def elapsed(self) -> float:
        """Seconds of work in this run, before it was resumed too; work that was lost does not count."""
        return self._before + time.monotonic() - self._begun

    def log(self, steps: int, stats: Mapping[str, float]) -> None:
        """Append a line to `metrics.jsonl` (null if not finite) and a point for each key to TensorBoard."""
        values = {key: float(value) for key, value in stats.items()} | {"time/elapsed": self.elapsed}
        line = {"steps": steps} | {k: v if math.isfinite(v) else None for k, v in values.items()}
        path = self.folder / "metrics.jsonl"
        try:
            if self._metrics is None:
                self._metrics = path.open("a", encoding="utf-8")
            self._metrics.write(json.dumps(line) + "\n")
            self._metrics.flush()
            path = self.folder / "events"
            if self._events is None:
                self._events = EventFile(path, self._purge_step)
            self._events.log(steps, values)
        except OSError as error:
            raise checkpoint.cannot_write(path, error) from error

    def save(self, state: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        """Write a checkpoint named after `state["steps"]`, and the policy's weights; keep the newest two.

        Raises
        ------
        RunError : they cannot be written; the checkpoints before are untouched
        """
        if self._metrics is not None:
            # No checkpoint may be ahead of the metrics that led to it, a power cut included.
            os.fsync(self._metrics.fileno())
        steps = int(state["steps"])
        checkpoint.save(self._checkpoint(steps), state)
        self._unreadable.discard(self._checkpoint(steps))
        metadata = {
            "config": json.dumps(asdict(self.config)),
            "steps": str(steps),
            "version": bebold.__version__,
        }
        checkpoint.save_weights(self.folder / "weights.safetensors", weights, metadata)
        every = _checkpoints(self.folder)
        current = [path for path in every if path <= self._checkpoint(steps) and path not in self._unreadable]
        for path in set(every) - set(current[-KEPT:]):
            path.unlink(missing_ok=True)

    def load(self) -> dict[str, Any] | None:
        """The newest checkpoint that can be read; None if none was ever written.

        Raises
        ------
        RunError : there are checkpoints, and none can be read; or there were some, and they are gone
        """
        paths = _checkpoints(self.folder)
        for path in reversed(paths):
            try:
                state = checkpoint.load(path)
                if type(state.get("steps")) is not int or not 0 <= state["steps"] < 2**63:
                    raise RunError(f"{path} does not say after how many steps it was written; use an older checkpoint")
                return state
            except RunError as error:
                _log.warning("%s", error)
                self._unreadable.add(path)
        if paths:
            raise RunError(f"no checkpoint in {paths[0].parent} can be read; train anew with another --root")
        later = ("weights.safetensors", "summary.json")  # than the first checkpoint
        if not (self.folder / "checkpoints").exists() or any((self.folder / name).exists() for name in later):
            raise RunError(
                f"{self.folder} has no checkpoint to go on from: it is a compact record, or they were removed; train "
                "anew with another --root"
            )
        return None

    def rewind(self, steps: int) -> None:
        """Cut the metrics back to `steps`, the checkpoint's (-1: to nothing); TensorBoard hides the rest."""
        path = self.folder / "metrics.jsonl"
        self._close_logs()
        kept = [record for record in read_records(path) if record["steps"] <= steps]
        if path.exists():
            with checkpoint.replacing(path) as file:
                file.writelines(json.dumps(record).encode() + b"\n" for record in kept)
        self._purge_step = steps + 1 if (self.folder / "events").exists() else None
        self._before = kept[-1].get("time/elapsed", 0.0) if kept else 0.0

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`."""
        with checkpoint.replacing(self.folder / "summary.json") as file:
            file.write(json.dumps(dict(summary), indent=1).encode() + b"\n")

    def close(self) -> None:
        """Close the files and let go of the folder."""
        if self._lock >= 0:
            self._close_logs()
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_logs(self) -> None:
        # A disk that was full when they were written to is full still; that was reported then.
        with suppress(OSError):
            if self._metrics is not None:
                self._metrics.close()
        with suppress(OSError):
            if self._events is not None:
                self._events.close()
        self._metrics = self._events = None

    def _checkpoint(self, steps: int) -> Path:
        return self.folder / "checkpoints" / f"{steps:012d}.pt"


def read_metrics(folder: Path) -> dict[str, np.ndarray]:
    """The columns of `metrics.jsonl`, one entry a line: `steps` int64, others float64, NaN where absent."""
    lines = read_records(folder / "metrics.jsonl")
    keys = dict.fromkeys(key for line in lines for key in line if key != "steps")
    columns = {key: np.array([line.get(key) for line in lines], dtype=np.float64) for key in keys}
    return {"steps": np.array([line["steps"] for line in lines], dtype=np.int64)} | columns


def last_records(folder: Path, size: int = 1 << 16) -> list[dict[str, Any]]:
    """The records in the last `size` bytes of a run's metrics, which may still be being written."""
    try:
        with (folder / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [record for record in map(_as_record, lines) if record is not None]


def read_records(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics file, without any that is no record, such as one that a killed process half wrote."""
    if not path.exists():
        return []
    records = [_as_record(line) for line in read_text(path).splitlines()]
    bad = [number for number, record in enumerate(records[:-1], start=1) if record is None]  # the last may be half done
    if bad:
        others = f" and {len(bad) - 1} more" if bad[1:] else ""
        _log.warning("%s: line %d%s is no record of metrics and is left out", path, bad[0], others)
    return [record for record in records if record is not None]


def _as_record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    steps = record.get("steps") if isinstance(record, dict) else None
    if type(steps) is not int or not 0 <= steps < 2**63:
        return None
    numbers = all(value is None or isinstance(value, int | float) for value in record.values())
    return record if numbers else None


def _checkpoints(folder: Path, ending: str = ".pt") -> list[Path]:
    """Those that a run wrote, named after their steps, oldest first; other files there are not touched."""
    found = (folder / "checkpoints").glob(f"*{ending}")
    return sorted(path for path in found if path.name.removesuffix(ending).isdecimal())


def _clear(folder: Path) -> None:
    """Remove what a killed process left half written, and nothing else."""
    leftovers = [checkpoint.temporary_for(folder / name) for name in WHOLE] + _checkpoints(folder, ".pt.tmp")
    try:
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
    except OSError as error:
        raise checkpoint.cannot_write(folder, error) from error


def _acquire(folder: Path) -> int:
    """Lock the folder. The kernel lets go when the process dies; children do not inherit the lock."""
    path = folder / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise checkpoint.cannot_write(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f"process {holder}" if holder else "another process"
        raise RunError(f"{folder} is in use by {who}; wait for it or stop it first") from None
    except OSError as error:
        os.close(descriptor)
        raise checkpoint.cannot_write(path, error) from error
    return descriptor
