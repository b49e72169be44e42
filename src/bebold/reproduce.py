"""From an experiment's name to its runs, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bebold import aggregate, curves, report, tables
from bebold.config import TrainConfig
from bebold.errors import UsageError, look_up
from bebold.evaluation import TEST_LEVELS
from bebold.experiments import EXPERIMENTS
from bebold.experiments.experiment import Experiment
from bebold.gridworld.tasks import find_task
from bebold.studies import STUDIES, Study
from bebold.sweep import results_of, sweep_and_draw

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
    experiment: Experiment | Study,
    rows: Sequence[str] = (),
    tasks: Sequence[str] = (),
    seeds: Sequence[int | str] = (),
) -> list[TrainConfig]:
    """Its runs with one of these labels, tasks and seeds; what is left empty chooses all.

    Raises
    ------
    UsageError : no run has one of them, or none has it together with the others; a study has no parts
    """
    if not (rows or tasks or seeds):
        return list(experiment.runs)
    if isinstance(experiment, Study):
        raise UsageError(f"the study {experiment.name} is run as a whole; leave --rows, --tasks and --seeds out")
    asked = {"row": list(rows), "task": [find_task(task).name for task in tasks], "seed": [str(seed) for seed in seeds]}
    names = [(run.name, find_task(run.task).name, str(run.seed)) for run in experiment.runs]
    chosen = [
        place
        for place, of_run in enumerate(names)
        if all(name in words or not words for name, words in zip(of_run, asked.values(), strict=True))
    ]
    for kind, words, known in zip(asked, asked.values(), zip(*names, strict=True), strict=True):
        for word in words:
            if word not in known:
                there = ", ".join(dict.fromkeys(known))
                raise UsageError(f"{experiment.name} has no {kind} {word}; there are {there}")
            if word not in [known[place] for place in chosen]:
                raise UsageError(
                    f"{experiment.name} has no run of {kind} {word} with the rest of what is asked for; "
                    "ask for it in a command of its own"
                )
    return [experiment.runs[place] for place in chosen]


def reproduce(
    name: str,
    out: Path,
    *,
    rows: Sequence[str] = (),
    tasks: Sequence[str] = (),
    seeds: Sequence[int | str] = (),
    records: Sequence[Path] = (),
    at_once: int = 0,
    smoke: bool = False,
    quiet: bool = False,
) -> Path:
    """Train and judge the runs of an experiment, and write its tables and figures; returns the folder of these.

    These lie in `out/<name>` and are of all its runs that are done, also if others failed. The run folders of all
    experiments lie in `out/runs`: what two of them ask for is trained once, and runs that are there already are
    resumed, or left alone if they are done.

    Parameters
    ----------
    rows, tasks, seeds : train only the runs with one of these labels, tasks and seeds; empty: with any
    records : folders of compact records, or of runs; where there are any, nothing is trained, and the runs that were
        asked for are drawn from the first folder that has them
    smoke : a few runs of seconds, to see that all of it works, always from the beginning and all in `out/<name>-smoke`

    Raises
    ------
    UsageError : there is no such experiment, or no such part of it; a study has no parts, and but for those of
        `visitation` no records; a folder of records holds none, or together they hold none of its runs with today's
        settings
    RunError : runs failed, or a file cannot be written
    Interrupted : SIGINT or SIGTERM came; every run has saved
    """
    experiment = find_experiment(name)
    if smoke and (rows or tasks or seeds or records):
        raise UsageError("a rehearsal is run as a whole; leave --rows, --tasks, --seeds and --records out")
    part = part_of(experiment, rows, tasks, seeds)
    folder = out / (f"{name}-smoke" if smoke else name)
    if records:
        _redraw(experiment, part, records, folder)
    elif isinstance(experiment, Study):
        experiment.run(folder, smoke=smoke, at_once=at_once, quiet=quiet)
    elif smoke:
        draw = partial(_write, experiment, of=len(experiment.smoke))
        sweep_and_draw(experiment.smoke, folder, draw, smoke=True, levels=SMOKE_LEVELS, at_once=at_once, quiet=quiet)
    else:
        draw = partial(_write, experiment, of=len(experiment.runs))
        sweep_and_draw(experiment.runs, folder, draw, part=part, levels=TEST_LEVELS, at_once=at_once, quiet=quiet)
    return folder


def _redraw(experiment: Experiment | Study, part: Sequence[TrainConfig], records: Sequence[Path], folder: Path) -> None:
    """Tables and figures of those of these runs that the folders of records have."""
    if not isinstance(experiment, Study):
        _write(experiment, _recorded(experiment.name, part, records, TEST_LEVELS), folder, of=len(experiment.runs))
    elif experiment.draw is None:
        raise UsageError(f"the study {experiment.name} keeps no records of runs; leave --records out")
    else:
        experiment.draw(_recorded(experiment.name, part, records, levels=0), folder)


def _recorded(name: str, runs: Sequence[TrainConfig], records: Sequence[Path], levels: int) -> list[report.Result]:
    """Those of these runs that the folders have, at least one."""
    for root in records:
        report.find_runs([root])  # refuses a folder without runs
    results = results_of(runs, records, levels)
    if not results:
        places = " ".join(map(str, records))
        raise UsageError(
            f"{places} has no finished run of {name} with its present settings; `bebold report {places}` "
            "draws the runs that there are"
        )
    return results


def _write(experiment: Experiment, results: Sequence[report.Result], folder: Path, *, of: int) -> None:
    """Tables and figures of some of the experiment's runs, or all."""
    share = f", {len(results)} of {of} runs" if len(results) < of else ""
    tables.write(results, folder / "tables.md", title=experiment.title + share)
    report.write_csv(results, folder / "summary.csv")
    curves.plot(results, folder / "curves.png")
    if aggregate.comparable(results):
        aggregate.plot(results, folder / "aggregate.png")
    if experiment.grid:
        curves.plot_grid(results, experiment.grid, folder / "grid.png")
    for figure, (keys, label) in experiment.metrics.items():
        curves.plot_metric(results, keys, label, folder / f"{figure}.png")
