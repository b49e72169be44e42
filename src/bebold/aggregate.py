"""All tasks in one figure: the interquartile mean of the return relative to the paper's (Agarwal et al. 2021)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bebold import curves
from bebold.errors import UsageError
from bebold.experiments.published import published_return
from bebold.groups import group
from bebold.report import Result

RESAMPLES = 2000
"""Of the bootstrap (rliable's number for curves)."""
CONFIDENCE = 0.95
POINTS = 101
"""Shares of the budget at which a curve is drawn."""

_log = logging.getLogger(__name__)


def plot(results: Sequence[Result], path: Path) -> None:
    """One picture: a line a method, for those that were run on the same tasks of the paper's table, the most there are.

    Raises
    ------
    UsageError : see `check` and `curves.check_picture`
    RunError : `path` cannot be written
    """
    check(results)
    methods = comparable(results)
    for name in dict.fromkeys(result.name for result in results):
        if name not in methods:
            _log.warning("%s was not run on the same tasks as the others and is left out of %s", name, path)
    tasks = list(next(iter(methods.values())))
    budgets = {task: max(r.steps for r in results if r.task == task) for task in tasks}
    figure = curves.new_figure(7.5, 5.2)
    panel = figure.subplots()
    look = curves.styles(methods)
    for name, runs in methods.items():
        shares, values = relative_curves(runs, budgets)
        mean, low, high = interquartile_mean(values)
        panel.fill_between(shares, low, high, color=look[name]["color"], alpha=0.15, linewidth=0)
        panel.plot(shares, mean, **look[name], linewidth=2.2, label=name)
    panel.axhline(1, color="#444444", linewidth=1, linestyle=(0, (4, 3)), label="BeBold in the paper")
    panel.set_xlabel("share of the task's budget (steps / steps of the longest run on it)")
    panel.set_ylabel("return / BeBold's (interquartile mean)")
    panel.set_xlim(0, 1)
    panel.set_ylim(bottom=-0.03)
    curves.tidy(panel)
    numbers = [sum(map(len, runs.values())) for runs in methods.values()]
    caption = (
        f"{len(tasks)} tasks; {' to '.join(dict.fromkeys(str(end(numbers)) for end in (min, max)))} runs a method; "
        f"band: {100 * CONFIDENCE:.0f} % stratified bootstrap interval; "
        "a run that ended before others of its method keeps its last return"
    )
    curves.add_key(figure, [panel], caption)
    curves.save(figure, path)


def check(results: Sequence[Result]) -> None:
    """Refuse runs of which `plot` has nothing to draw.

    Raises
    ------
    UsageError : no run has a curve on a task of the paper
    """
    if not comparable(results):
        raise UsageError("no run has a curve on a task of the paper's table; leave out --aggregate")


def relative_curves(
    runs: Mapping[str, Sequence[Result]], budgets: Mapping[str, int]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Shares of the budget `[P]`, and for each task the return of each seed divided by the paper's `[seeds, P]`.

    They begin where every run has been evaluated and end where the longest one does; a shorter one keeps its last
    return.
    """
    every = [(run.curve_steps / budgets[task], run) for task, of in runs.items() for run in of]
    first, last = max(shares[0] for shares, _ in every), max(shares[-1] for shares, _ in every)
    grid = np.linspace(first, last, POINTS)
    values = [
        np.array([np.interp(grid, run.curve_steps / budgets[task], run.curve_returns) for run in of])
        / (published_return(task) or 1.0)
        for task, of in runs.items()
    ]
    return grid, values


def interquartile_mean(values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Over all seeds of all tasks `[seeds, P]`: the mean of the middle half, and the ends of its interval, each `[P]`.

    The bootstrap draws the seeds of each task anew, and leaves the tasks as they are: another draw of levels and
    weights is asked after, not another set of tasks. `scipy.stats.bootstrap` would refuse a task with a single seed.
    """
    from scipy.stats import trim_mean

    rng = np.random.default_rng(0)  # the same runs give the same figure
    drawn = [of_task[rng.integers(len(of_task), size=(RESAMPLES, len(of_task)))] for of_task in values]
    means = trim_mean(np.concatenate(drawn, axis=1), 0.25, axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return trim_mean(np.concatenate(values), 0.25, axis=0), low, high


def comparable(results: Sequence[Result]) -> dict[str, dict[str, list[Result]]]:
    """By name and task, the runs with a curve of those names that share the longest list of the paper's tasks."""
    methods: dict[str, dict[str, list[Result]]] = {}
    for (task, name), runs in group([r for r in results if published_return(r.task) and len(r.curve_steps)]).items():
        methods.setdefault(name, {})[task] = runs
    most = max((list(tasks) for tasks in methods.values()), key=len, default=[])
    return {name: tasks for name, tasks in methods.items() if list(tasks) == most}
