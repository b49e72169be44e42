"""Many runs, some at a time: each trained or resumed, then judged; what is done already is left alone."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bebold.checkpoint import cannot_write
from bebold.config import TrainConfig
from bebold.errors import RunError, UsageError
from bebold.evaluation import TEST_LEVELS
from bebold.gridworld.tasks import has_repaired
from bebold.interrupts import Interrupted, caught_signals
from bebold.parallel import die_with, interpreter
from bebold.progress import Progress, clock
from bebold.record import record
from bebold.report import Result, read_result
from bebold.runs import holds_run, last_records, run_folder
from bebold.settings import (
    FREE_IN_FOLDERS,
    core_count,
    differences,
    from_dict,
    read_config,
    resolve,
    validate,
    worker_count,
)

_log = logging.getLogger(__name__)

POLL = 1.0
"""Seconds between two looks at the runs."""
LOG = "log.txt"
"""In each run folder: what its process said."""
SAY_EVERY = 60.0
"""Seconds between two lines about a run."""
PATIENCE = 60.0
"""Seconds for a run to save after it was told to stop."""


def sweep(
    configs: Sequence[TrainConfig], root: Path, *, at_once: int = 0, levels: int = TEST_LEVELS, quiet: bool = False
) -> list[Path]:
    """Bring every run to its end and judge it; returns the run folders in the order of `configs`.

    A run that fails does not stop the others. Killed at any moment and called again, it goes on where it was.

    Parameters
    ----------
    at_once : runs side by side; 0: one per core
    levels : on how many levels of Farama's environment each agent is judged; 0: it is not
    quiet : plain lines, for logs

    Raises
    ------
    UsageError : settings are impossible, or two runs would share a folder, or one holds a run with other settings
    RunError : runs failed; the others are done
    Interrupted : SIGINT or SIGTERM came; every run has saved
    """
    at_once = at_once or core_count()
    share = max(1, core_count() // at_once)
    for config in configs:
        validate(config)
    configs = [resolve(replace(c, workers=worker_count(c, share))) for c in configs]
    jobs = [_Job(c, run_folder(c, root), levels) for c in configs]
    _refuse_clashes(jobs)
    waiting = [job for job in jobs if not job.done()]
    running: list[_Job] = []
    failed: list[_Job] = []
    with ExitStack() as stack:
        display = stack.enter_context(_Display(jobs, waiting, at_once, quiet))
        stack.callback(_stop, running)
        signals = stack.enter_context(caught_signals())
        while (waiting or running) and not signals:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                try:
                    job.start(root, quiet=display.plain)
                except (RunError, OSError) as error:
                    job.fault = str(error)
                    failed.append(job)
                    display.ended(job, False)
                else:
                    running.append(job)
            time.sleep(POLL)
            for job in list(running):
                job.look()
                if not job.running:
                    running.remove(job)
                    done = job.done()
                    failed += [] if done else [job]
                    display.ended(job, done)
            display.refresh(running, waiting, at_once)
    if signals:
        raise Interrupted(signals[0], "the same command")
    if failed:
        log = "" if failed[0].fault else f" (see {failed[0].folder / LOG})"
        raise RunError(
            f"{len(failed)} of {len(jobs)} runs failed, the first with: {failed[0].last_words()}{log}; "
            "mend the cause and run the same command again"
        )
    return [job.folder for job in jobs]


def complete(config: TrainConfig, root: Path, levels: int) -> None:
    """Train one run, or go on with it, to its end; then judge it on `levels` of Farama's levels."""
    from bebold.judge import judge
    from bebold.training import resume, train

    folder = run_folder(config, root)
    if not _trained(config, folder):
        if holds_run(folder):
            resume(
                folder,
                total_steps=config.total_steps,
                stop_when_solved=config.stop_when_solved,
                give_up_at=config.give_up_at,
                quiet=True,
            )
        else:
            train(config, root=root, quiet=True)
    # Whether the repaired levels are played depends on the verdict on the others.
    for _ in ("plain", "repaired"):
        for options in _missing_verdicts(config, folder, levels):
            judge(folder, episodes=levels, **options)
    if _missing_verdicts(config, folder, levels):
        raise RunError(f"another process went on with {folder} while it was judged; run the same command again")


def is_done(config: TrainConfig, root: Path, levels: int) -> bool:
    """Whether this run is trained, and judged on so many levels.

    Raises
    ------
    UsageError : its folder holds a run with other settings
    RunError : what its folder holds cannot be read
    """
    job = _Job(resolve(config), run_folder(config, root), levels)
    if clash := job.clash:
        raise UsageError(clash)
    return job.done()


def results_of(configs: Sequence[TrainConfig], roots: Sequence[Path], levels: int) -> list[Result]:
    """What those of these runs say that are trained and judged, each in the first of these folders that has it.

    Warns of run folders that hold something else.
    """
    results, left_out = [], []
    for config in configs:
        for root in roots:
            try:
                if is_done(config, root, levels):
                    results.append(read_result(run_folder(config, root)))
                    break
            except (UsageError, RunError) as error:
                left_out.append(str(error))
    if left_out:
        others = f"; {len(left_out) - 1} more were left out, too" if left_out[1:] else ""
        _log.warning("left out of the tables: %s%s", left_out[0], others)
    return results


def sweep_and_draw(
    runs: Sequence[TrainConfig],
    folder: Path,
    draw: Callable[[list[Result], Path], None],
    *,
    part: Sequence[TrainConfig] | None = None,
    smoke: bool = False,
    levels: int = TEST_LEVELS,
    at_once: int = 0,
    quiet: bool = False,
) -> None:
    """Bring runs to their end in `runs` beside `folder`; draw those that are done in `folder`, also if others failed.

    Their compact records go to `folder/records`.

    Parameters
    ----------
    draw : `draw(results, folder)` writes tables and figures of at least one run
    part : those of `runs` to train, all by default; what is there of the others is drawn too
    smoke : the runs too lie in `folder`, and always start from the beginning
    levels, at_once, quiet : as in `sweep`

    Raises
    ------
    UsageError, Interrupted : as in `sweep`; nothing is drawn
    RunError : runs failed, or a file cannot be written
    """
    root = (folder if smoke else folder.parent) / "runs"
    if smoke:
        shutil.rmtree(root, ignore_errors=True)
    failure = None
    try:
        sweep(runs if part is None else part, root, at_once=at_once, levels=levels, quiet=quiet)
    except RunError as error:
        failure = error
    results = results_of(runs, [root], levels)
    if results:
        draw(results, folder)
        record(results, folder / "records")
    if failure is not None:
        raise failure


def work() -> None:
    """The process of one run: it reads what to do, and dies with the sweep that started it."""
    task = json.loads(sys.stdin.readline())
    die_with(task["parent"])
    try:
        complete(from_dict(TrainConfig, task["config"], "the sweep"), Path(task["root"]), task["levels"])
    except Interrupted as error:
        raise SystemExit(128 + error.signum) from None
    except KeyboardInterrupt:  # while it was judged
        raise SystemExit(130) from None
    except (RunError, UsageError) as error:
        print(f"bebold: {error}", file=sys.stderr)
        raise SystemExit(1) from None


@dataclass
class _Job:
    """One run of a sweep, and its process while it has one."""

    config: TrainConfig
    folder: Path
    levels: int
    process: subprocess.Popen[str] | None = None
    logged: int = 0
    """Bytes in the log before its process was started."""
    progress: Progress | None = None
    fault: str = ""
    """Why it has no process."""

    def done(self) -> bool:
        """Whether it is trained and judged."""
        return _trained(self.config, self.folder) and not _missing_verdicts(self.config, self.folder, self.levels)

    @property
    def clash(self) -> str:
        """In what setting the run in its folder is another; empty if in none, or if there is no run."""
        there = resolve(read_config(self.folder)) if holds_run(self.folder) else self.config
        for name, found, asked in differences(there, self.config, FREE_IN_FOLDERS):
            return f"{self.folder} holds a run with {name} {found!r}, not {asked!r}"
        return ""

    @property
    def title(self) -> str:
        return f"{self.folder.parts[-3]} {self.config.name} seed {self.config.seed}"

    @property
    def steps(self) -> int:
        """Steps taken, as of the last look."""
        return self.progress.steps if self.progress is not None else 0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def words(self) -> str:
        """How far it is, as of the last look."""
        if self.steps >= self.config.total_steps:
            return "trained; playing Farama's environment"
        return self.progress.words() if self.progress is not None else ""

    def look(self) -> None:
        """Read how far it is."""
        records = [r for r in last_records(self.folder) if r["steps"] > self.steps]
        if records and self.progress is not None:
            # Few records have an evaluation: the last known one counts.
            known = [{k: v for k, v in r.items() if isinstance(v, int | float)} for r in records]
            self.progress.update(records[-1]["steps"], dict(ChainMap(*reversed(known))))

    def start(self, root: Path, *, quiet: bool) -> None:
        """Start its process; with `quiet` it says a line now and then."""
        begun = last_records(self.folder)
        interval = SAY_EVERY if quiet else math.inf
        steps = begun[-1]["steps"] if begun else 0
        self.progress = Progress(self.config.total_steps, start=steps, title=self.title, quiet=True, interval=interval)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            log = (self.folder / LOG).open("a", encoding="utf-8")
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        command, environment = interpreter("from bebold.sweep import work; work()")
        with log:
            self.logged = log.tell()
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                process_group=0,
                env=environment,
            )
        assert self.process.stdin is not None
        task = {"parent": os.getpid(), "root": str(root), "levels": self.levels, "config": asdict(self.config)}
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.close()

    def last_words(self) -> str:
        """Why it has no process, or why that ended: by a signal, or what it said last."""
        if self.fault:
            return self.fault
        code = self.process.poll() if self.process is not None else None
        if code is not None and code < 0:
            hint = ", out of memory?" if code == -signal.SIGKILL else ""
            return f"ended by {signal.Signals(-code).name}{hint}"
        with (self.folder / LOG).open("rb") as log:
            log.seek(self.logged)
            lines = log.read().decode(errors="replace").splitlines()
        said = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {code}")
        return said.removeprefix("bebold: ")


class _Display:
    """How far all runs are: a table in a terminal, lines in a log."""

    def __init__(self, jobs: Sequence[_Job], waiting: Sequence[_Job], at_once: int, quiet: bool):
        self.total, self.done, self.failed = len(jobs), len(jobs) - len(waiting), 0
        steps = sum(job.config.total_steps for job in jobs) / 1e6
        runs = "1 run" if len(jobs) == 1 else f"{len(jobs)} runs"
        self.plan = f"{runs}, {steps:,.{0 if steps >= 10 else 1}f} M steps in all, {at_once} at a time"
        self.plain = quiet or not sys.stderr.isatty()
        self._live: Any = None

    def __enter__(self) -> _Display:
        if not self.plain:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=2, transient=True)
            self._live.start()
        self._say(f"{self.plan}; {self.done} done before")
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def ended(self, job: _Job, done: bool) -> None:
        """A run's process has ended, and the run with it if it is `done`."""
        if done:
            self.done += 1
            result = read_result(job.folder)
            solved = result.steps_to_solve
            words = f"return {result.last_return:.3f}"
            words += "" if solved is None else f", solved at {solved / 1e6:.2f} M steps"
            words += f", gave up at {result.steps / 1e6:.2f} M steps" if result.gave_up else ""
        else:
            self.failed += 1
            words = f"failed: {job.last_words()}"
        self._say(f"{job.title}: {words} ({self.done} of {self.total} done)")

    def refresh(self, running: Sequence[_Job], waiting: Sequence[_Job], at_once: int) -> None:
        if self._live is None:
            return
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for job in running:
            table.add_row(job.title, job.words())
        table.add_row("[bold]all[/bold]", self._headline(running, waiting, at_once))
        self._live.update(table)

    def _headline(self, running: Sequence[_Job], waiting: Sequence[_Job], at_once: int) -> str:
        words = f"{self.done} of {self.total} runs done"
        words += f", {self.failed} failed" if self.failed else ""
        speeds = [job.progress.speed for job in running if job.progress is not None and job.progress.speed > 0]
        if speeds:
            left = sum(max(0, job.config.total_steps - job.steps) for job in [*running, *waiting])
            side_by_side = min(at_once, len(running) + len(waiting))
            words += f", about {clock(left / (sum(speeds) / len(speeds) * side_by_side))} of training left"
        return words

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _stop(running: Sequence[_Job]) -> None:
    """Tell the processes to save and stop, and wait until they have; one that does not is killed."""
    processes = [job.process for job in running if job.process is not None]
    for process in processes:
        process.send_signal(signal.SIGTERM)  # SIGINT may be ignored, as under nohup
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        process.kill()
        process.wait()


def _trained(config: TrainConfig, folder: Path) -> bool:
    """Whether the run in `folder` has come to the end that these settings ask for."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        steps, solved = int(summary["steps"]), summary["steps_to_solve"] is not None
    except (OSError, ValueError, KeyError, TypeError):
        return False
    records = last_records(folder)
    if not records or records[-1]["steps"] != steps:
        return False  # it was resumed since
    if steps >= config.total_steps or (config.stop_when_solved and solved):
        return True
    result = read_result(folder)
    return 0 < config.give_up_at <= steps and result.gave_up and result.config.total_steps == config.total_steps


def _missing_verdicts(config: TrainConfig, folder: Path, levels: int) -> list[dict[str, bool]]:
    """What is still to be judged, as options of `judge`: sampled and greedy actions, and both on the repaired levels.

    The latter where there are any and the agent solves most of the others: one that fails would play to each time-out.
    A run that gave up is played with sampled actions alone.
    """
    result = read_result(folder)
    verdicts = [({"greedy": False}, result.sampled)]
    if not (config.give_up_at and result.gave_up):
        verdicts += [({"greedy": True}, result.greedy)]
    if has_repaired(result.task) and result.sampled.get("solved", 0.0) > 0.5:
        verdicts += [({"repaired": True, "greedy": False}, result.repaired)]
        verdicts += [({"repaired": True, "greedy": True}, result.repaired_greedy)]
    return [options for options, verdict in verdicts if verdict.get("episodes", 0) < levels]


def _refuse_clashes(jobs: Sequence[_Job]) -> None:
    taken: dict[Path, _Job] = {}
    for job in jobs:
        if job.folder in taken:
            raise UsageError(f"two runs would share the folder {job.folder}; give one of them a label")
        taken[job.folder] = job
        if clash := job.clash:
            raise UsageError(f"{clash}; move it away, or make these runs in another folder or under another label")
