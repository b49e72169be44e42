"""Curves and a table of one or more run folders."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bebold.checkpoint import replacing
from bebold.config import TrainConfig
from bebold.experiments.published import published_return, solved_threshold, steps_to_solve
from bebold.gridworld.tasks import find_task
from bebold.runs import read_config, read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

COLOURS = {
    "bebold": "#0072B2",
    "rnd": "#D55E00",
    "episodic": "#009E73",
    "none": "#000000",
    "rnd-episodic": "#CC79A7",
    "bebold-no-episodic": "#E69F00",
    "bebold-no-clip": "#56B4E9",
    "bebold-count": "#8A8A2B",
}
"""Okabe and Ito's palette, which colour-blind readers tell apart. A method has one colour in every figure."""
OTHER = "#999999"
SMOOTHING = 50
"""Updates averaged in a training curve, which stands in where a run has no evaluations."""


@dataclass(frozen=True)
class Result:
    """What one run folder says."""

    folder: Path
    config: TrainConfig
    task: str
    """The paper's short name where there is one."""
    curve_steps: np.ndarray
    curve_returns: np.ndarray
    evaluated: bool
    """Whether the curve is of held-out levels; else it is the training return, smoothed."""
    steps: int
    steps_to_solve: int | None
    final: dict[str, float]
    """`summary.json`: the judgement at the end, if there was one."""
    minutes: float

    @property
    def last_return(self) -> float:
        """The mean return on fresh levels at the end; before that, the last point of the curve."""
        return self.final.get(
            "return_mean", float(self.curve_returns[-1]) if len(self.curve_returns) else math.nan
        )


def read_result(folder: Path) -> Result:
    """Read a run folder, finished or not.

    Raises
    ------
    UsageError : there is no run in `folder`
    """
    config = read_config(folder)
    metrics = read_metrics(folder)
    task = find_task(config.task)
    name = task.short or task.id
    steps, none = metrics["steps"], np.full(len(metrics["steps"]), np.nan)
    judged = metrics.get("eval/return_mean", none)
    there = np.isfinite(judged)
    evaluated = bool(there.any())
    if evaluated:
        curve_steps, curve_returns = steps[there], judged[there]
    else:
        curve_steps, curve_returns = _smooth(steps, metrics.get("charts/episodic_return", none))
    elapsed = metrics.get("time/elapsed", none)
    elapsed = elapsed[np.isfinite(elapsed)]
    summary = folder / "summary.json"
    return Result(
        folder=folder,
        config=config,
        task=name,
        curve_steps=curve_steps,
        curve_returns=curve_returns,
        evaluated=evaluated,
        steps=int(steps[-1]) if len(steps) else 0,
        steps_to_solve=steps_to_solve(list(steps[there]), list(judged[there]), solved_threshold(name)),
        final=json.loads(summary.read_text()) if summary.exists() else {},
        minutes=float(elapsed[-1]) / 60 if len(elapsed) else math.nan,
    )


def table(results: Sequence[Result]) -> Table:
    """One line a run."""
    from rich.table import Table

    view = Table(header_style="bold")
    for column in ("task", "method", "seed", "steps", "steps to solve", "return", "paper", "minutes"):
        view.add_column(column, justify="left" if column in ("task", "method") else "right")
    for result in results:
        paper = published_return(result.task, result.config.method)
        view.add_row(
            result.task,
            result.config.method,
            str(result.config.seed),
            f"{result.steps:,}",
            "-" if result.steps_to_solve is None else f"{result.steps_to_solve:,}",
            _number(result.last_return, 3),
            "-" if paper is None else f"{paper:.2f}",
            _number(result.minutes, 1),
        )
    return view


def plot(results: Sequence[Result], path: Path) -> None:
    """Learning curves as a PNG: a panel a task, a colour a method, thin lines for seeds, a thick one for the mean.

    Raises
    ------
    RunError : `path` cannot be written
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # no display is looked for
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(result.task for result in results))
    columns = min(len(tasks), 3)
    rows = math.ceil(len(tasks) / columns)
    figure = Figure(figsize=(1.2 + 4.4 * columns, 0.6 + 3.2 * rows), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel in panels[len(tasks) :]:
        panel.set_axis_off()
    for panel, task in zip(panels, tasks, strict=False):
        _panel(panel, task, [r for r in results if r.task == task])
    # One key for all panels, below them: inside it would hide curves.
    labels = {
        label: line
        for panel in panels
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(labels.values()),
        list(labels),
        loc="outside lower center",
        ncols=min(len(labels), 5),
        frameon=False,
    )
    image = io.BytesIO()
    figure.savefig(image, format="png")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(image.getvalue())


def _panel(panel: Axes, task: str, results: Sequence[Result]) -> None:
    for method in dict.fromkeys(result.config.method for result in results):
        colour = COLOURS.get(method, OTHER)
        curves = [
            (result.curve_steps / 1e6, result.curve_returns)
            for result in results
            if result.config.method == method and len(result.curve_steps)
        ]
        if len(curves) > 1:
            for steps, returns in curves:
                panel.plot(steps, returns, color=colour, linewidth=0.8, alpha=0.4)
        panel.plot(*_mean(curves), color=colour, linewidth=2.2, label=method)
    paper = published_return(task)
    if paper is not None:
        panel.axhline(paper, color="#444444", linewidth=1, linestyle=(0, (4, 3)), label="BeBold in the paper")
    panel.set_title(task)
    panel.set_xlabel("environment steps (millions)")
    kinds = {result.evaluated for result in results}
    panel.set_ylabel("return on held-out levels" if kinds == {True} else "return")
    panel.set_ylim(-0.03, 1.03)
    panel.set_xlim(left=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#dddddd", linewidth=0.6)


def _mean(curves: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the curves over the steps that all of them cover."""
    curves = list(curves)
    if not curves:
        return np.zeros(0), np.zeros(0)
    first, last = max(s[0] for s, _ in curves), min(s[-1] for s, _ in curves)
    grid = np.unique(np.concatenate([s for s, _ in curves]))
    grid = grid[(grid >= first) & (grid <= last)]
    return grid, np.mean([np.interp(grid, s, r) for s, r in curves], axis=0)


def _smooth(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A running mean over up to `SMOOTHING` updates; those in which no episode ended are left out."""
    there = np.isfinite(values)
    steps, values = steps[there], values[there]
    sums = np.concatenate([[0.0], np.cumsum(values)])
    first = np.maximum(np.arange(len(values)) - SMOOTHING + 1, 0)
    return steps, (sums[1:] - sums[first]) / (np.arange(len(values)) - first + 1)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"
