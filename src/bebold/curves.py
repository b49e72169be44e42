"""Learning curves, drawn so that colour-blind readers can tell the methods apart."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bebold.checkpoint import replacing
from bebold.experiments.published import published_return
from bebold.report import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def plot(results: Sequence[Result], path: Path) -> None:
    """One PNG: a panel a task, a colour a method, a thin line a seed, a thick one their mean.

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
    labels = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(labels.values()),
        list(labels),
        loc="outside lower center",
        ncols=min(len(labels), 5),
        frameon=False,
    )
    image = io.BytesIO()
    figure.savefig(image, format="png")
    with replacing(path) as file:
        file.write(image.getvalue())


def _panel(panel: Axes, task: str, results: Sequence[Result]) -> None:
    for method in dict.fromkeys(result.name for result in results):
        colour = COLOURS.get(method, OTHER)
        curves = [
            (result.curve_steps / 1e6, result.curve_returns)
            for result in results
            if result.name == method and len(result.curve_steps)
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
