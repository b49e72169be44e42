"""Learning curves, drawn so that colour-blind readers can tell the methods apart."""

from __future__ import annotations

import io
import itertools
import math
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bebold.checkpoint import replacing
from bebold.errors import UsageError
from bebold.experiments.published import IN_A_ROW, SHARE, published_return
from bebold.groups import OF_THE_BEST, Groups, any_gave_up, group, solved_at
from bebold.report import Result
from bebold.runs import read_metrics
from bebold.settings import flat, resolve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "bebold": "#0072B2",
    "rnd": "#D55E00",
    "episodic": "#009E73",
    "none": "#000000",
    "ride": "#E69F00",
    "icm": "#CC79A7",
    "amigo": "#56B4E9",
    "count": "#8A8A2B",
    "bebold-no-episodic": "#E69F00",
    "rnd-episodic": "#CC79A7",
    "bebold-no-clip": "#56B4E9",
    "bebold-count": "#8A8A2B",
    "bebold-averaged": "#009E73",
}
"""Okabe and Ito's palette, which colour-blind readers tell apart. A method has one look in every figure."""
DASHED = {"bebold-no-episodic", "rnd-episodic", "bebold-no-clip", "bebold-count", "bebold-averaged"}
"""Variants of BeBold, whose lines are dashed: there are more methods than colours."""
LABEL_COLOURS = ("#332288", "#7A4A00", "#9467FF", "#882255", "#661100")
"""Of labels: as far from each other and from `COLOURS` as those are among themselves, to colour-blind readers too."""
LABEL_LINES = ((0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
"""Of labels, whose lines are never solid: dashes, as (offset, (on, off, ...)) in line widths."""
BAND = 3
"""From so many seeds on a band shows their spread; fewer are drawn as thin lines."""

PICTURES = (".png", ".svg", ".pdf")
"""Endings of pictures that can be written."""

MARGIN = 0.03
"""Of return, above and below what can be shown."""
HIGHEST = 1.0 + MARGIN

SHARES = 32
"""Stretches of a run over which a metric is averaged."""

Style = Mapping[str, Any]
"""Colour and line style, as matplotlib's keywords."""
PAPER: Style = {"color": "#444444", "linestyle": (0, (4, 3))}
"""BeBold's return in the paper, a horizontal line."""


def plot(results: Sequence[Result], path: Path) -> None:
    """One picture: a panel a task, a colour a method, a thick line the mean over its seeds, a band their range.

    Raises
    ------
    UsageError : see `check_picture`
    RunError : `path` cannot be written
    """
    groups = group(results)
    look = styles(result.name for result in results)
    figure, panels = _panels(groups)
    for task, panel in panels.items():
        draw_task(panel, task, {name: runs for (of, name), runs in groups.items() if of == task}, look)
    _share_labels(list(panels.values()))
    # One key for all panels, below them: inside it would hide curves.
    add_key(figure, list(panels.values()), caption(groups))
    save(figure, path)


def caption(groups: Groups) -> str:
    """What the lines and bands of `draw_task` are; nothing if each is of a single seed that did not give up."""
    seeds = {len(runs) for runs in groups.values()}
    parts = ["thick line: mean over the seeds trained that far"] if max(seeds) > 1 else []
    parts += ["runs that gave up stay at their last return"] if any_gave_up(groups) else []
    if any(run.stopped_solved for runs in groups.values() if len(runs) > 1 for run in runs):
        parts.append("runs that stopped as they were solved keep their last return while others like them go on")
    parts += ["band: from the lowest seed to the highest"] if max(seeds) >= BAND else []
    parts += ["thin lines: seeds, where there are two"] if 2 in seeds else []
    return "; ".join(parts)


def plot_metric(results: Sequence[Result], keys: Sequence[str], label: str, path: Path) -> None:
    """One picture of a logged metric on a logarithmic axis: a panel a task, a line a run, of means over `SHARES` of it.

    A dot where the run had solved its task: see `solved_at`.

    Parameters
    ----------
    keys : whose product is drawn: names of metrics, of each the means, or of settings, such as `intrinsic.coefficient`
    label : what the axis is called

    Raises
    ------
    RunError : `path` cannot be written
    """
    groups = group(results)
    look = styles(result.name for result in results)
    figure, panels = _panels(groups)
    dots = False
    for (task, name), runs in groups.items():
        for number, run in enumerate(runs):
            steps, values = metric(run, keys)
            style = {**look[name], "linewidth": 1.8, "label": name if number == 0 else None}
            shown = values > 0  # neither what is unknown nor what has no logarithm
            panels[task].plot(steps[shown] / 1e6, values[shown], **style)
            when = solved_at(run, [r for (of, _), others in groups.items() if of == task for r in others])
            if when is not None and shown.any():
                height = np.exp(np.interp(when, steps[shown], np.log(values[shown])))
                dot = {"color": look[name]["color"], "markeredgecolor": "white", "markersize": 8, "zorder": 3}
                panels[task].plot(when / 1e6, height, marker="o", **dot)
                dots = True
    for task, panel in panels.items():
        panel.set_title(task)
        panel.set_xlabel("environment steps (millions)")
        panel.set_ylabel(label)
        panel.set_yscale("log")
        panel.set_xlim(left=0)
        tidy(panel)
    _share_labels(list(panels.values()))
    words = f"a line a seed, of means over 1/{SHARES} of the run"
    if dots:
        words += (
            f"; dot: the first of {IN_A_ROW} evaluations in a row at {100 * SHARE:.0f} % of BeBold's return in the "
            f"paper, or where it gives none at {100 * OF_THE_BEST:.0f} % of what the best run has in its last "
            f"{IN_A_ROW}"
        )
    add_key(figure, list(panels.values()), words)
    save(figure, path)


def metric(run: Result, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values over a run, each `[SHARES]`, of what `plot_metric` draws."""
    metrics = read_metrics(run.folder)
    settings = dict(flat(asdict(resolve(run.config))))
    factor = math.prod(float(settings[key]) for key in keys if key in settings)
    unknown = np.full(len(metrics["steps"]), np.nan)
    parts = [binned(metrics["steps"], metrics.get(key, unknown)) for key in keys if key not in settings]
    return parts[0][0], factor * np.prod([values for _, values in parts], axis=0)


def binned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of the known values over `SHARES` equal stretches of the steps, NaN where none is, and their middles."""
    if not len(steps):
        return np.zeros(0), np.zeros(0)
    edges = np.linspace(0, steps[-1], SHARES + 1)
    known = np.isfinite(values)
    places = np.clip(np.searchsorted(edges, steps[known]) - 1, 0, SHARES - 1)
    counts = np.bincount(places, minlength=SHARES)
    sums = np.bincount(places, weights=values[known], minlength=SHARES)
    return (edges[:-1] + edges[1:]) / 2, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _panels(groups: Groups) -> tuple[Figure, dict[str, Axes]]:
    """A figure with a panel for each task."""
    tasks = list(dict.fromkeys(task for task, _ in groups))
    columns = 2 if len(tasks) == 4 else min(len(tasks), 3 if len(tasks) <= 12 else 4)
    rows = math.ceil(len(tasks) / columns)
    scale = 1.0 if len(tasks) <= 3 else 0.72  # many panels are shown smaller, and their letters must be read
    figure = new_figure(1.2 + 4.4 * scale * columns, 0.9 + 3.2 * scale * rows)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in panels[len(tasks) :]:
        panel.set_axis_off()
    return figure, dict(zip(tasks, panels, strict=False))


def _share_labels(panels: Sequence[Axes]) -> None:
    """Leave what all panels call an axis at the left and below the lowest of each column."""
    for name in ("xlabel", "ylabel"):
        if len({getattr(panel, f"get_{name}")() for panel in panels}) > 1:
            continue
        for index, panel in enumerate(panels):
            columns = panel.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
            outer = index % columns == 0 if name == "ylabel" else index + columns >= len(panels)
            if not outer:
                getattr(panel, f"set_{name}")("")


def plot_grid(results: Sequence[Result], grid: Sequence[Sequence[tuple[str, str]]], path: Path) -> None:
    """One picture of panels in rows, each with the runs of one name under a title of its own.

    Raises
    ------
    RunError : `path` cannot be written
    """
    rows, columns = len(grid), max(map(len, grid))
    figure = new_figure(1.2 + 2.8 * columns, 0.9 + 2.4 * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    groups = group(results)
    for panel, (name, title) in zip(panels.flat, itertools.chain(*grid), strict=True):
        for (task, of), runs in groups.items():
            if of == name:
                draw_task(panel, task, {"mean over seeds": runs}, {"mean over seeds": {"color": COLOURS["bebold"]}})
        panel.set_title(title, fontsize="medium")
        panel.label_outer()
    panels[0, 0].set_ylim(_lowest(results), HIGHEST)  # of all panels, which share their axes
    add_key(figure, list(panels.flat), caption(groups))
    save(figure, path)


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Colour and line of each name shown: a method's own; a label's by its letters, or the next that is free."""
    names = set(names)
    found: dict[str, Style] = {
        name: {"color": COLOURS[name], "linestyle": "--" if name in DASHED else "-"} for name in names & COLOURS.keys()
    }
    for name in sorted(names - set(COLOURS)):
        first = zlib.crc32(name.encode())  # `hash` differs from one process to the next
        every: list[Style] = []
        for turn in range(len(LABEL_LINES)):  # a colour comes again, with other dashes, once all are taken
            for index in range(first, first + len(LABEL_COLOURS)):
                colour = index % len(LABEL_COLOURS)
                line = LABEL_LINES[(colour + turn) % len(LABEL_LINES)]
                every.append({"color": LABEL_COLOURS[colour], "linestyle": line})
        found[name] = next((style for style in every if style not in found.values()), every[0])
    return found


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # no display is looked for
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def add_key(figure: Figure, panels: Sequence[Axes], caption: str) -> None:
    """One key for all panels, below them, under a caption."""
    labels = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    width = figure.get_figwidth()
    entry = 0.9 + 0.08 * max(map(len, labels), default=0)  # inches of a line and its label
    columns = max(1, min(len(labels), int(width / entry)))
    figure.set_figheight(figure.get_figheight() + 0.2 * (math.ceil(len(labels) / columns) - 1))
    key = figure.legend(
        list(labels.values()),
        list(labels),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        handlelength=3.5,
        title=textwrap.fill(caption, int(13 * width)) or None,
        title_fontsize="small",
    )
    key.get_title().set_multialignment("center")


def check_picture(path: Path) -> None:
    """Refuse a file that `save` could not write, before anything is drawn for it.

    Raises
    ------
    UsageError : it has none of the endings in `PICTURES`
    """
    if path.suffix.lower() not in PICTURES:
        raise UsageError(f"'{path}' has none of the endings {', '.join(PICTURES)}; name a picture that has one")


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format that the ending of `path` names.

    Raises
    ------
    UsageError : see `check_picture`
    RunError : `path` cannot be written
    """
    check_picture(path)
    image = io.BytesIO()
    figure.savefig(image, format=path.suffix[1:].lower())
    with replacing(path) as file:
        file.write(image.getvalue())


def draw_task(panel: Axes, task: str, groups: Mapping[str, Sequence[Result]], look: Mapping[str, Style]) -> None:
    """The runs of each name on one task: means over seeds, bands or thin lines for their spread, the paper's return."""
    for name, runs in groups.items():
        shown = [run for run in runs if len(run.curve_steps)]
        curves = [(run.curve_steps / 1e6, run.curve_returns) for run in shown]
        longest = max((run.end for run in shown), default=0.0)
        held = [run.held_curve(longest) for run in shown]
        steps, mean, low, high = summary([(steps / 1e6, returns) for steps, returns in held])
        if len(curves) >= BAND:
            panel.fill_between(steps, low, high, color=look[name]["color"], alpha=0.15, linewidth=0)
        elif len(curves) > 1:
            for curve in curves:
                panel.plot(*curve, **look[name], linewidth=0.8, alpha=0.6)
        panel.plot(steps, mean, **look[name], linewidth=2.2, label=name)
    paper = published_return(task)
    if paper is not None:
        panel.axhline(paper, **PAPER, linewidth=1, label="BeBold in the paper")
    panel.set_title(task)
    panel.set_xlabel("environment steps (millions)")
    evaluated = all(run.evaluated for runs in groups.values() for run in runs)
    panel.set_ylabel("return on held-out levels" if evaluated else "return")
    panel.set_ylim(_lowest(itertools.chain(*groups.values())), HIGHEST)
    panel.set_xlim(left=0)
    tidy(panel)


def _lowest(results: Iterable[Result]) -> float:
    """Where the axis of returns begins: they are seldom below 0."""
    lowest = (float(run.curve_returns.min()) for run in results if len(run.curve_steps))
    return min((0.0, *lowest)) - MARGIN


def tidy(panel: Axes) -> None:
    """No frame, a light grid."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#dddddd", linewidth=0.6)


def summary(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Steps, and at each the mean, the lowest and the highest of the curves that cover it."""
    if not curves:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0)
    grid = np.unique(np.concatenate([steps for steps, _ in curves]))
    values = np.array([np.interp(grid, steps, returns) for steps, returns in curves])
    for row, (steps, _) in zip(values, curves, strict=True):
        # Runs of equal length begin and end some updates apart, so each end is good for one evaluation more.
        gap = np.median(np.diff(steps)) if len(steps) > 1 else 0.0
        row[(grid < steps[0] - gap) | (grid > steps[-1] + gap)] = np.nan
    return grid, np.nanmean(values, axis=0), np.nanmin(values, axis=0), np.nanmax(values, axis=0)
