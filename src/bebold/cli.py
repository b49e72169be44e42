"""The command line: parse, and hand to those who know."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

import bebold
from bebold.config import TrainConfig
from bebold.errors import NO_ROOM, RunError, UsageError, out_of_memory
from bebold.gridworld.tasks import TASKS
from bebold.methods.recipes import RECIPES
from bebold.presets import PRESETS, preset

MOST_LEVELS = 10**9
"""The last level that `bebold watch` begins on."""

Runs = Annotated[tuple[Path, ...], tyro.conf.Positional]
Source = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Names = Annotated[str | None, tyro.conf.arg(metavar="A,B,...")]


@dataclass(frozen=True)
class Train:
    """Train an agent from scratch; the run folder is ROOT/TASK/METHOD/SEED, or with a label ROOT/TASK/LABEL/SEED.

    Ctrl-C saves and stops; `bebold resume` goes on as if nothing had happened.
    """

    config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(default_factory=TrainConfig)
    root: Path = Path("runs")
    """Where run folders are made."""
    quiet: bool = False
    """A plain line every half minute in place of the bar, for logs."""

    def run(self) -> int:
        from bebold.training import train

        return _training(lambda: train(self.config, root=self.root, quiet=self.quiet))


@dataclass(frozen=True)
class Resume:
    """Go on with a run from its last checkpoint."""

    folder: Source
    """The run folder."""
    total_steps: int | None = None
    """Train up to this many environment steps, solved or given up or not; without it as the run was begun."""
    quiet: bool = False
    """A plain line every half minute in place of the bar, for logs."""

    def run(self) -> int:
        from bebold.training import resume

        return _training(lambda: resume(self.folder, total_steps=self.total_steps, quiet=self.quiet))


@dataclass(frozen=True)
class Eval:
    """Play a trained agent on fresh levels of Farama's own environment; the run folder keeps the result."""

    source: Source
    """A run folder, or a .safetensors file of weights; with --pretrained a task."""
    pretrained: bool = False
    """Play the agent for this task that comes with the package."""
    episodes: int = 512
    """Levels, one episode each."""
    greedy: bool = False
    """Take the likeliest action in place of drawing one."""
    repaired: bool = False
    """Play the -v1 id of the ObstructedMaze that it was trained on; in -v0 a ball can replace the box with the key."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        from bebold.judge import judge

        if self.episodes < 1:
            raise UsageError(f"--episodes is {self.episodes}; it must be at least 1")
        verdict = judge(
            _weights(self.source, self.pretrained), episodes=self.episodes, greedy=self.greedy, repaired=self.repaired
        )
        print(json.dumps(verdict.as_dict()) if self.json else verdict)
        return 0


@dataclass(frozen=True)
class Watch:
    """See a trained agent play, as a GIF or MP4 file or live in the terminal."""

    source: Source
    """A run folder, or a .safetensors file of weights; with --pretrained a task."""
    pretrained: bool = False
    """Watch the agent for this task that comes with the package."""
    out: Path | None = None
    """A file ending in .gif or .mp4; by default agent.gif in the run folder, or TASK.gif here if pretrained."""
    terminal: bool = False
    """Play in the terminal and write no file."""
    episodes: int = 3
    """How many episodes, each on another level."""
    level: int = 0
    """Which of the levels that `bebold eval` plays comes first."""
    greedy: bool = False
    """Take the likeliest action in place of drawing one."""
    fps: float = 8.0
    """Steps a second."""

    def run(self) -> int:
        from bebold.evaluation import TEST_SEED, load_policy
        from bebold.video import check_video, record_episodes, show_in_terminal, write_video

        if self.episodes < 1 or not 0 <= self.level <= MOST_LEVELS or not 0.1 <= self.fps <= 1000:
            raise UsageError(
                f"--episodes must be positive, --level between 0 and {MOST_LEVELS:,}, --fps between 0.1 and 1000"
            )
        folder = self.source if self.source.is_dir() else self.source.parent
        weights = _weights(self.source, self.pretrained)
        out = self.out or (Path(f"{weights.stem}.gif") if self.pretrained else folder / "agent.gif")
        check_video(out)
        policy, config = load_policy(weights)
        seeds = range(TEST_SEED + self.level, TEST_SEED + self.level + self.episodes)
        if self.terminal:
            for seed in seeds:
                show_in_terminal(policy, config.task, seed=seed, greedy=self.greedy, fps=self.fps)
            return 0
        frames = record_episodes(policy, config.task, seeds, greedy=self.greedy)
        write_video(frames, out, fps=self.fps)
        print(f"{out}: {self.episodes} episode{'s' * (self.episodes > 1)}, {len(frames)} frames")
        return 0


@dataclass(frozen=True)
class Report:
    """Draw the learning curves of runs and print tables of them."""

    runs: Runs
    """Run folders, or folders that hold some."""
    out: Path | None = None
    """The picture, as .png, .svg or .pdf; report.png by default, and none by default if there is --html."""
    html: Path | None = None
    """Write all of it as one page that needs no network: curves, tables, maps, agents at play."""
    without_agents: bool = False
    """Leave agents at play out of the page; each takes seconds and up to 300 KB."""
    csv: Path | None = None
    """Also write the table to this file, one line a run."""
    tables: Path | None = None
    """Also write tables over seeds to this Markdown file: returns, tasks solved, steps to solve, repaired levels."""
    title: str = "Results"
    """Heading of these tables."""
    aggregate: Path | None = None
    """Another picture: the interquartile mean over all tasks and seeds, relative to the paper's returns."""
    record: Path | None = None
    """Also keep a compact record of each run in this folder; `bebold report` reads it like the run itself."""

    def run(self) -> int:
        from rich.console import Console

        from bebold import aggregate, curves, groups, page, record, report, tables

        results = [report.read_result(folder) for folder in report.find_runs(self.runs)]
        out = self.out or (Path("report.png") if self.html is None else None)
        files: list[tuple[Path | None, Callable[..., object], str]] = [
            (out, curves.plot, "learning curves"),
            (self.html, partial(page.write, show_agents=not self.without_agents), "a page to look at in a browser"),
            (self.csv, report.write_csv, "one line a run"),
            (self.tables, partial(tables.write, title=self.title), "tables over seeds"),
            (self.aggregate, aggregate.plot, "interquartile mean over tasks and seeds"),
            (self.record, record.record, f"compact records of {len(results)} runs"),
        ]
        # What cannot be written is refused before anything is.
        for path in (out, self.html, self.csv, self.tables, self.aggregate):
            if path is not None and path.is_dir():  # as the empty path is
                raise UsageError(f"'{path}' names no file; give it a name")
        for picture in (out, self.aggregate):
            if picture is not None:
                curves.check_picture(picture)
        if self.aggregate is not None:
            aggregate.check(results)
        if self.record is not None:
            record.places(results, self.record)
        grouped = groups.group(results)
        groups.warn_of_mixtures(grouped)
        # Without a terminal rich would squeeze the table into 80 columns.
        console = Console(width=None if sys.stdout.isatty() else 120)
        console.print(report.table(results))
        if any(len(runs) > 1 for runs in grouped.values()):
            console.print(tables.returns(grouped).rich())
        for path, write, what in files:
            if path is not None:
                write(results, path)
                print(f"{path}: {what}")
        return 0


@dataclass(frozen=True)
class Sweep:
    """Train and judge many runs, some at a time; what is done already is left alone.

    Ctrl-C saves and stops; the same command goes on, also after a kill.
    """

    file: Annotated[Path, tyro.conf.Positional]
    """A YAML file that lists the runs: docs/sweeps.md."""
    root: Path = Path("runs")
    """Where run folders are made."""
    at_once: int = 0
    """Runs side by side; 0: one per core."""
    levels: int = 512
    """Levels on which each trained agent is judged, once with sampled and once with greedy actions."""
    quiet: bool = False
    """Plain lines in place of the table, for logs."""

    def run(self) -> int:
        from bebold.interrupts import Interrupted
        from bebold.plan import read_sweep
        from bebold.sweep import sweep

        _check_at_once(self.at_once)
        if self.levels < 1:
            raise UsageError(f"--levels is {self.levels}; it must be at least 1")
        try:
            folders = sweep(
                read_sweep(self.file), self.root, at_once=self.at_once, levels=self.levels, quiet=self.quiet
            )
        except Interrupted as error:
            return _complain(error, 128 + error.signum)
        done = "1 run is done" if len(folders) == 1 else f"{len(folders)} runs are done"
        print(f"{self.root}: {done}; `bebold report {self.root}` draws them")
        return 0


@dataclass(frozen=True)
class Reproduce:
    """Make the tables and figures of an experiment or study, most of them the paper's, and train what they need.

    It says first how many steps that is: two cores take about 100 million an hour. Ctrl-C saves and stops, and the same
    command goes on. The studies corridor, two-corridors and noise take minutes and start anew.
    """

    experiment: Annotated[str, tyro.conf.arg(metavar="NAME"), tyro.conf.Positional]
    """table2 (the twelve hardest tasks), ablations (each part of the criterion), consistency (what is left of the bonus
    in the end), sensitivity (entropy and β), every-method (whether each method learns), static (the other static
    tasks), dynamic-obstacles (the paper's admitted failure), visitation (maps of pure exploration), corridor
    (short-sightedness in a toy environment), two-corridors (the appendix's equations) or noise (what chance alone
    earns)."""
    out: Path = Path("reproduction")
    """Tables, figures and compact records go to a folder in it, named after the experiment; runs, which experiments
    share, to `runs` in it."""
    rows: Names = None
    """Train these rows of its tables alone, as in `--rows rnd,ride`; tables and figures are of all that is done."""
    tasks: Names = None
    """Train on these of its tasks alone."""
    seeds: Names = None
    """Train these of its seeds alone, as in `--seeds 11,12`."""
    records: Names = None
    """Train nothing: draw the runs of the experiment whose records, or run folders, are in these folders, as in
    `--records results/table2`; all, or what --rows, --tasks and --seeds choose. Of the studies visitation has them."""
    at_once: int = 0
    """Runs side by side; 0: one per core."""
    smoke: bool = False
    """A few runs of seconds, to see that all of it works."""
    quiet: bool = False
    """Plain lines in place of the table, for logs."""

    def run(self) -> int:
        from bebold.interrupts import Interrupted
        from bebold.reproduce import reproduce

        _check_at_once(self.at_once)
        try:
            folder = reproduce(
                self.experiment,
                self.out,
                rows=_names(self.rows),
                tasks=_names(self.tasks),
                seeds=_names(self.seeds),
                records=[Path(name) for name in _names(self.records)],
                at_once=self.at_once,
                smoke=self.smoke,
                quiet=self.quiet,
            )
        except Interrupted as error:
            return _complain(error, 128 + error.signum)
        print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
        return 0


@dataclass(frozen=True)
class Bench:
    """Measure this machine: environments, collection, the whole training loop, memory, each stage's share."""

    json: bool = False
    """Print one JSON object."""

    def run(self) -> int:
        from bebold.bench import bench

        return bench(as_json=self.json)


@dataclass(frozen=True)
class Tasks:
    """List the tasks: id, the paper's short name, family, grid, step limit, the paper's return, steps of a run."""

    def run(self) -> int:
        from bebold.experiments.published import published_return

        line = "{:<42} {:<10} {:<18} {:>7} {:>6} {:>6} {:>11}".format
        print(line("id", "short", "family", "grid", "limit", "paper", "steps"))
        for task in TASKS:
            paper = published_return(task.short or "")
            grid = f"{task.width}x{task.height}"
            shown = "" if paper is None else f"{paper:.2f}"
            steps = f"{preset(task=task.id).total_steps:,}"
            print(line(task.id, task.short or "", task.family, grid, task.max_steps, shown, steps))
        return 0


@dataclass(frozen=True)
class Methods:
    """List the methods: name, β unless another is asked for, source, what is paid for a step from o to o'."""

    def run(self) -> int:
        line = "{:<18} {:>4}  {:<37}  {}".format
        print(line("method", "β", "source", "bonus"))
        for name, recipe in RECIPES.items():
            print(line(name, f"{recipe.coefficient:g}", recipe.source, recipe.formula))
        return 0


@dataclass(frozen=True)
class Demo:
    """Train BeBold on KeyCorridorS3R3 until solved, play it on Farama's environment, draw the result."""

    root: Path = Path("runs")
    """Where the run folder is made; a run that is there already is resumed."""
    quiet: bool = False
    """A plain line every half minute in place of the bar, for logs."""

    def run(self) -> int:
        from bebold.demo import demo

        return _training(lambda: demo(self.root, quiet=self.quiet))


COMMANDS: dict[str, Callable[..., object]] = {
    command.__name__.lower(): command
    for command in (Train, Resume, Eval, Watch, Report, Sweep, Reproduce, Bench, Tasks, Methods, Demo)
}
DESCRIPTION = "BeBold (NovelD): exploration under sparse rewards. `bebold COMMAND --help` says more of each command."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 (the run failed), 2 (usage), or 128 + the signal."""
    logging.basicConfig(format="bebold: %(message)s", level=logging.WARNING)
    argv = sys.argv[1:] if argv is None else argv
    if list(argv) == ["--version"]:
        print(f"bebold {bebold.__version__}")
        return 0
    try:
        command = tyro.extras.subcommand_cli_from_dict(
            COMMANDS | {"train": _train_from(argv)},
            prog="bebold",
            description=DESCRIPTION,
            args=argv,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except SystemExit as stop:  # help was printed, or what is wrong with the arguments
        return int(stop.code or 0)
    except UsageError as error:
        return _complain(error, 2)
    try:
        code = command.run()  # type: ignore[attr-defined]
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _complain(error, 2)
    except RunError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        # Where nobody expected to write, as when compiled kernels are kept.
        if error.errno not in {*NO_ROOM, errno.EROFS}:
            raise
        return _complain(f"{error.strerror}: make room and try again", 1)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return _complain("out of memory: lower num_envs, unroll or the networks' widths", 1)


def _train_from(argv: Sequence[str]) -> type[Train]:
    """`Train` with the defaults of the preset that the arguments name, so that help shows them and options change them.

    Raises
    ------
    UsageError : the preset is for a task that there is not
    """
    defaults = TrainConfig()
    name, method, task = (_last(argv, option, getattr(defaults, option)) for option in ("preset", "method", "task"))
    if name not in PRESETS:
        return Train  # which refuses it

    @dataclass(frozen=True)
    class FromPreset(Train):
        __doc__ = Train.__doc__
        config: Annotated[TrainConfig, tyro.conf.arg(name="")] = field(
            default_factory=lambda: preset(name, method=method, task=task)  # type: ignore[arg-type]
        )

    return FromPreset


def _last(argv: Sequence[str], option: str, default: str) -> str:
    """The value of `--option VALUE` or `--option=VALUE`, as tyro will read it; what is wrong tyro will say."""
    found = default
    for word, following in itertools.pairwise([*argv, ""]):
        if word == f"--{option}" and following and not following.startswith("-"):
            found = following
        elif word.startswith(f"--{option}="):
            found = word.partition("=")[2]
    return found


def _training(work: Callable[[], Path]) -> int:
    """Train, say where the result is, and turn a signal into its exit code."""
    from bebold.interrupts import Interrupted

    try:
        folder = work()
    except Interrupted as error:
        return _complain(error, 128 + error.signum)
    print(f"{folder}: trained; `bebold eval {folder}` plays it, `bebold report {folder}` draws it")
    return 0


def _weights(source: Path, pretrained: bool) -> Path:
    """What a person named, as a run folder or a file."""
    from bebold.pretrained import find_pretrained

    return find_pretrained(str(source)) if pretrained else source


def _names(text: str | None) -> list[str]:
    """What stands between the commas."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def _check_at_once(at_once: int) -> None:
    if at_once < 0:
        raise UsageError(f"--at-once is {at_once}; it must be at least 1, or 0 for one per core")


def _complain(error: Exception | str, code: int) -> int:
    print(f"bebold: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
