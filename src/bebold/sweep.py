"""Many runs, some at a time: each trained or gone on with, then judged; what is done already is left alone."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bebold.checkpoint import cannot_write
from bebold.config import TrainConfig
from bebold.errors import RunError, UsageError
from bebold.gridworld.tasks import has_repaired
from bebold.interrupts import Interrupted, caught_signals
from bebold.progress import Progress, clock
from bebold.report import read_result
from bebold.runs import holds_run, last_records, run_folder
from bebold.settings import core_count, from_dict, read_config, resolve, validate

LEVELS = 512
"""On which a trained agent is judged."""
POLL = 1.0
"""Seconds between two looks at the runs."""
LOG = "log.txt"
"""In each run folder: what its process said."""
FREE = {"workers", "device", "checkpoint_interval", "total_steps"}
"""Settings in which a run found may differ from the run asked for: they do not change what it shows."""
SAY_EVERY = 60.0
"""Seconds between two lines about a run."""
PATIENCE = 60.0
"""Seconds for a run to save after it was told to stop."""


def read_sweep(path: Path) -> list[TrainConfig]:
    """The runs that a file asks for.

    A YAML file with a list `runs` of settings as in a run's config.yaml, and optionally `defaults` for all of them. A
    list in place of a value stands for one run with each: every combination where there are several. In a label,
    `{name}` is replaced by the setting of that name.

    Raises
    ------
    UsageError : the file cannot be read, or asks for what there is not
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path} is no sweep that can be read ({reason}); see docs/sweeps.md") from None
    if not isinstance(content, dict) or not isinstance(content.get("runs"), list) or not content["runs"]:
        raise UsageError(f"{path} has no list `runs`; see docs/sweeps.md")
    unknown = set(content) - {"defaults", "runs"}
    if unknown:
        raise UsageError(f"{path} has {', '.join(map(repr, unknown))} beside `defaults` and `runs`; remove it")
    defaults = content.get("defaults") or {}
    configs = []
    for number, entry in enumerate(content["runs"], start=1):
        source = f"{path}, run {number}"
        if not isinstance(entry, dict) or not isinstance(defaults, dict):
            raise UsageError(f"{source}: settings have names, such as task: KCS3R3")
        for values in _combinations(_merge(defaults, entry)):
            config = from_dict(TrainConfig, values, source)
            configs.append(replace(config, label=_fill_in(config.label, config, source)))
    return configs


def sweep(
    configs: Sequence[TrainConfig], root: Path, *, at_once: int = 0, levels: int = LEVELS, quiet: bool = False
) -> list[Path]:
    """Bring every run to its end and judge it; returns the run folders in the order of `configs`.

    A run that fails does not stop the others. Killed at any moment and called again, it goes on where it was.

    Parameters
    ----------
    at_once : runs side by side; 0: one per core
    levels : on how many levels of Farama's environment each agent is judged
    quiet : plain lines, for logs

    Raises
    ------
    UsageError : settings are impossible, or two runs would share a folder, or one holds a run with other settings
    RunError : runs failed; the others are done
    Interrupted : SIGINT or SIGTERM came; every run has saved
    """
    at_once = at_once or core_count()
    share = max(1, core_count() // at_once)
    configs = [replace(c, workers=c.workers or share) for c in configs]
    for config in configs:
        validate(config)
    configs = [resolve(c) for c in configs]
    jobs = [_Job(c, run_folder(c, root), levels) for c in configs]
    _refuse_clashes(jobs)
    waiting = [job for job in jobs if not job.done()]
    running: list[_Job] = []
    failed: list[_Job] = []
    with ExitStack() as stack:
        display = stack.enter_context(_Display(len(jobs), len(jobs) - len(waiting), quiet))
        stack.callback(_stop, running)
        signals = stack.enter_context(caught_signals())
        while (waiting or running) and not signals:
            while waiting and len(running) < at_once:
                running.append(waiting.pop(0))
                running[-1].start(root, quiet=display.plain)
            time.sleep(POLL)
            for job in list(running):
                job.look()
                if not job.running:
                    running.remove(job)
                    failed += [] if job.done() else [job]
                    display.ended(job)
            display.refresh(running, waiting, at_once)
    if signals:
        raise Interrupted(signals[0], "the same command")
    if failed:
        raise RunError(
            f"{len(failed)} of {len(jobs)} runs failed, the first with: {failed[0].last_words()} "
            f"(see {failed[0].folder / LOG}); mend the cause and run the same command again"
        )
    return [job.folder for job in jobs]


def complete(config: TrainConfig, root: Path, levels: int) -> None:
    """Train one run, or go on with it, to its end; then judge it on `levels` of Farama's levels."""
    from bebold.judge import judge
    from bebold.training import resume, train

    folder = run_folder(config, root)
    if not _trained(config, folder):
        if holds_run(folder):
            more = config.total_steps > read_config(folder).total_steps
            resume(folder, total_steps=config.total_steps if more else None, quiet=True)
        else:
            train(config, root=root, quiet=True)
    while missing := _missing_verdicts(folder, levels):
        judge(folder, episodes=levels, **missing[0])


def work() -> None:
    """The process of one run: it reads what to do, and dies with the sweep that started it."""
    from bebold.parallel import die_with

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
    progress: Progress | None = None

    def done(self) -> bool:
        """Whether it is trained and judged."""
        if not _trained(self.config, self.folder):
            return False
        return not _missing_verdicts(self.folder, self.levels)

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
        with log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from bebold.sweep import work; work()"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                process_group=0,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        assert self.process.stdin is not None
        task = {"parent": os.getpid(), "root": str(root), "levels": self.levels, "config": asdict(self.config)}
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.close()

    def last_words(self) -> str:
        """The last line that its process said."""
        lines = (self.folder / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "nothing was said")


class _Display:
    """How far all runs are: a table in a terminal, lines in a log."""

    def __init__(self, total: int, done: int, quiet: bool):
        self.total, self.done, self.failed = total, done, 0
        self.plain = quiet or not sys.stderr.isatty()
        self._live: Any = None

    def __enter__(self) -> _Display:
        if self.plain:
            self._say(self._headline([], [], 1))
        else:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=2, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def ended(self, job: _Job) -> None:
        """A run's process has ended."""
        if job.done():
            self.done += 1
            result = read_result(job.folder)
            solved = result.steps_to_solve
            words = f"return {result.last_return:.3f}"
            words += "" if solved is None else f", solved at {solved / 1e6:.2f} M steps"
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
            table.add_row(job.title, job.progress.words() if job.progress is not None else "")
        table.add_row("[bold]all[/bold]", self._headline(running, waiting, at_once))
        self._live.update(table)

    def _headline(self, running: Sequence[_Job], waiting: Sequence[_Job], at_once: int) -> str:
        words = f"{self.done} of {self.total} runs done"
        words += f", {self.failed} failed" if self.failed else ""
        speeds = [job.progress.speed for job in running if job.progress is not None and job.progress.speed > 0]
        if speeds:
            left = sum(max(0, job.config.total_steps - job.steps) for job in [*running, *waiting])
            side_by_side = min(at_once, len(running) + len(waiting))
            words += f", at most {clock(left / (sum(speeds) / len(speeds) * side_by_side))} left"
        return words

    def _say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _stop(running: Sequence[_Job]) -> None:
    """Tell the processes to save and stop, and wait until they have."""
    processes = [job.process for job in running if job.process is not None]
    for process in processes:
        process.send_signal(signal.SIGINT)
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
    return steps >= config.total_steps or (config.stop_when_solved and solved)


def _missing_verdicts(folder: Path, levels: int) -> list[dict[str, bool]]:
    """What is still to be judged, as options of `judge`: sampled and greedy actions, and both on the repaired levels.

    The latter where there are any and the agent solves most of the others: one that fails would play to each time-out.
    """
    result = read_result(folder)
    verdicts = [({"greedy": False}, result.sampled), ({"greedy": True}, result.greedy)]
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
        if not holds_run(job.folder):
            continue
        found = read_config(job.folder)
        for name, asked in _flat(asdict(job.config)):
            there = dict(_flat(asdict(resolve(found))))[name]
            if name not in FREE and there != asked:
                raise UsageError(
                    f"{job.folder} holds a run with {name} {there!r}, not {asked!r}; give these runs a label, or "
                    "another --root"
                )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as (`ppo.entropy`, value)."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, those in `above` first."""
    merged = dict(below)
    for name, value in above.items():
        nested = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if nested else value
    return merged


def _combinations(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every choice of one element of each list, the last list's changing fastest."""
    choices = []
    for name, value in values.items():
        if isinstance(value, dict):
            choices.append([(name, nested) for nested in _combinations(value)])
        else:
            choices.append([(name, one) for one in (value if isinstance(value, list) else [value])])
    return (dict(chosen) for chosen in itertools.product(*choices))


def _fill_in(label: str, config: TrainConfig, source: str) -> str:
    """The label with `{ppo.entropy}` and the like replaced."""
    for name, value in _flat(asdict(config)):
        label = label.replace("{" + name + "}", f"{value:g}" if isinstance(value, float) else str(value))
    if "{" in label:
        raise UsageError(f"{source}: the label {label} names a setting that there is not")
    return label
