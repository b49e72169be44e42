"""From an experiment's name to its runs, tables and figures."""

from __future__ import annotations

import shutil
from pathlib import Path

from bebold import aggregate, curves, record, report, tables
from bebold.errors import look_up
from bebold.evaluation import TEST_LEVELS
from bebold.experiments import EXPERIMENTS
from bebold.experiments.experiment import Experiment
from bebold.studies import STUDIES, Study
from bebold.sweep import sweep

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


def reproduce(name: str, out: Path, *, at_once: int = 0, smoke: bool = False, quiet: bool = False) -> Path:
    """Train and judge all runs of an experiment, and write its tables and figures; returns the folder of these.

    These lie in `out/<name>`. The run folders of all experiments lie in `out/runs`: what two of them ask for is trained
    once, and runs that are there already are resumed, or left alone if they are done.

    Parameters
    ----------
    smoke : a few runs of seconds, to see that all of it works, always from the beginning and all in `out/<name>-smoke`

    Raises
    ------
    UsageError : there is no such experiment
    RunError : runs failed, or a file cannot be written
    Interrupted : SIGINT or SIGTERM came; every run has saved
    """
    experiment = find_experiment(name)
    folder = out / (f"{name}-smoke" if smoke else name)
    if isinstance(experiment, Study):
        experiment.run(folder, smoke=smoke, at_once=at_once, quiet=quiet)
        return folder
    root = (folder if smoke else out) / "runs"
    if smoke:
        shutil.rmtree(root, ignore_errors=True)
    runs = experiment.smoke if smoke else experiment.runs
    folders = sweep(runs, root, at_once=at_once, levels=SMOKE_LEVELS if smoke else TEST_LEVELS, quiet=quiet)
    results = [report.read_result(run) for run in folders]
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
