"""From an experiment's name to its runs, tables and figures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from bebold import aggregate, curves, record, report, tables
from bebold.config import TrainConfig
from bebold.errors import UsageError, look_up
from bebold.evaluation import TEST_LEVELS
from bebold.experiments import EXPERIMENTS
from bebold.experiments.experiment import Experiment
from bebold.gridworld.tasks import find_task
from bebold.runs import run_folder
from bebold.studies import STUDIES, Study
from bebold.sweep import is_done, sweep

SMOKE_LEVELS = 8
"""On which the runs of a smoke test are judged."""


def find_experiment(name: str) -> Experiment | Study:
    """The experiment or study of this name.

    Raises
    ------
    UsageError : there is none
    """
    known: dict[str, Experiment | Study] = {**EXPERIMENTS, **STUDIES}
    return look_up("experiment", name, known)


def part_of(
    experiment: Experiment, rows: Sequence[str] = (), tasks: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[TrainConfig]:
    """Its runs with one of these labels, tasks and seeds; what is left empty chooses all.

    Raises
    ------
    UsageError : no run has one of them, or none has all that is asked for
    """
    runs = list(experiment.runs)
    asked: tuple[tuple[str, list[str], Callable[[TrainConfig], str]], ...] = (
        ("row", list(rows), lambda run: run.name),
        ("task", [find_task(task).id for task in tasks], lambda run: find_task(run.task).id),
        ("seed", [str(seed) for seed in seeds], lambda run: str(run.seed)),
    )
    for kind, words, of in asked:
        known = {of(run): run for run in experiment.runs}
        for word in words:
            look_up(f"{kind} of {experiment.name}", word, known)
        runs = [run for run in runs if not words or of(run) in words]
    if not runs:
        raise UsageError(
            f"{experiment.name} has each of these rows, tasks and seeds, but no run with all; ask for less"
        )
    return runs


def reproduce(
    name: str,
    out: Path,
    *,
    rows: Sequence[str] = (),
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
    at_once: int = 0,
    smoke: bool = False,
    quiet: bool = False,
) -> Path:
    """Train and judge the runs of an experiment, and write its tables and figures; returns the folder of these.

    These lie in `out/<name>` and are of all its runs that are done. The run folders of all experiments lie in
    `out/runs`: what two of them ask for is trained once, and runs that are there already are resumed, or left alone if
    they are done.

    Parameters
    ----------
    rows, tasks, seeds : train only the runs with one of these labels, tasks and seeds; empty: with any
    smoke : a few runs of seconds, to see that all of it works, always from the beginning and all in `out/<name>-smoke`

    Raises
    ------
    UsageError : there is no such experiment, or no such part of it; a study has no parts
    RunError : runs failed, or a file cannot be written
    Interrupted : SIGINT or SIGTERM came; every run has saved
    """
    experiment = find_experiment(name)
    folder = out / (f"{name}-smoke" if smoke else name)
    chosen = bool(rows or tasks or seeds)
    if chosen and (smoke or isinstance(experiment, Study)):
        what = "the rehearsal of an experiment" if smoke else f"the study {name}"
        raise UsageError(f"{what} is run as a whole; leave --rows, --tasks and --seeds away")
    if isinstance(experiment, Study):
        experiment.run(folder, smoke=smoke, at_once=at_once, quiet=quiet)
        return folder
    root = (folder if smoke else out) / "runs"
    if smoke:
        shutil.rmtree(root, ignore_errors=True)
    runs = experiment.smoke if smoke else experiment.runs
    levels = SMOKE_LEVELS if smoke else TEST_LEVELS
    sweep(
        part_of(experiment, rows, tasks, seeds) if chosen else runs, root, at_once=at_once, levels=levels, quiet=quiet
    )
    results = [report.read_result(run_folder(config, root)) for config in runs if is_done(config, root, levels)]
    tables.write(results, folder / "tables.md", title=experiment.title)
    report.write_csv(results, folder / "summary.csv")
    curves.plot(results, folder / "curves.png")
    if aggregate.comparable(results):
        aggregate.plot(results, folder / "aggregate.png")
    if experiment.grid:
        curves.plot_grid(results, experiment.grid, folder / "grid.png")
    for figure, (keys, label) in experiment.metrics.items():
        curves.plot_metric(results, keys, label, folder / f"{figure}.png")
    record.record(results, folder / "records")
    return folder
