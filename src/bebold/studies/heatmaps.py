"""Maps of one level as pictures: a row a run, a column a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from bebold.curves import new_figure, save
from bebold.maps import Maps
from bebold.studies.rooms import Explored, millions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

COLOURS = "viridis"
"""Even steps of brightness, which colour-blind readers see as well."""
WALL, FLOOR = "#6b6b6b", "#ececec"
"""Walls; places where there is nothing to show."""

Values = Callable[[Maps, int], np.ndarray]
"""What is drawn of the maps at an index: `[H, W]`, NaN where the cell stays blank."""


def visits(runs: Sequence[Explored], moments: Sequence[int], path: Path) -> None:
    """N(s) / Σ N of all steps so far, on a logarithmic scale, as one PNG.

    Raises
    ------
    RunError : `path` cannot be written
    """

    def values(maps: Maps, index: int) -> np.ndarray:
        return _positive(maps.visits[index] / maps.visits[index].sum())

    _draw_shares(runs, moments, values, "share of all steps so far", path)


def density(runs: Sequence[Explored], moments: Sequence[int], path: Path) -> None:
    """Share of the policy's own steps, on a logarithmic scale, as one PNG.

    Raises
    ------
    RunError : `path` cannot be written
    """
    _draw_shares(runs, moments, lambda maps, index: _positive(maps.density[index]), "share of the policy's steps", path)


def bonus(runs: Sequence[Explored], moments: Sequence[int], path: Path) -> None:
    """Mean bonus a step, as a share of the highest in its panel, which is written below it, as one PNG.

    Raises
    ------
    RunError : `path` cannot be written
    """
    from matplotlib.colors import Normalize

    def values(maps: Maps, index: int) -> np.ndarray:
        paid = _positive(maps.bonus[index])
        return paid / np.nanmax(paid, initial=0.0) if np.isfinite(paid).any() else paid

    def title(maps: Maps, index: int) -> str:
        return f"highest {np.nanmax(maps.bonus[index]):.2g}"

    _draw(runs, moments, values, Normalize(0, 1), "mean bonus a step / the highest of the panel", path, title)


def doors(maps: Maps) -> np.ndarray:
    """bool `[H, W]`: the cells beside rooms that are neither of a room nor walls."""
    return ndimage.binary_dilation(maps.room >= 0) & (maps.room < 0) & ~maps.walls


def _draw_shares(runs: Sequence[Explored], moments: Sequence[int], values: Values, label: str, path: Path) -> None:
    from matplotlib.colors import LogNorm

    shown = [values(run.maps, index) for run in runs for _, index in _indices(run.maps, moments)]
    lowest = min((np.nanmin(x) for x in shown), default=1e-6)
    _draw(runs, moments, values, LogNorm(min(lowest, 0.1), 1.0), label, path)


def _draw(
    runs: Sequence[Explored],
    moments: Sequence[int],
    values: Values,
    scale: Normalize,
    label: str,
    path: Path,
    title: Callable[[Maps, int], str] | None = None,
) -> None:
    level = runs[0].maps
    inside = np.argwhere((level.room >= 0) | level.walls)
    (top, left), (bottom, right) = inside.min(axis=0), inside.max(axis=0)
    width = 1.9
    height = width * (bottom - top + 1) / (right - left + 1) + (0.2 if title else 0.0)
    figure = new_figure(0.9 + width * len(moments), 0.9 + height * len(runs))
    panels = figure.subplots(len(runs), len(moments), squeeze=False)
    for panel in panels.flat:
        panel.set_xlim(left - 0.5, right + 0.5)
        panel.set_ylim(bottom + 0.5, top - 0.5)
        panel.set_aspect("equal")
        panel.set_xticks([])
        panel.set_yticks([])
        panel.spines[:].set_visible(False)
    for row, run in zip(panels, runs, strict=True):
        row[0].set_ylabel(run.title, fontsize="small")
        for column, index in _indices(run.maps, moments):
            _draw_map(row[column], run.maps, values(run.maps, index), scale)
            if title is not None:
                row[column].set_xlabel(title(run.maps, index), fontsize="x-small", labelpad=2)
    for panel, moment in zip(panels[0], moments, strict=True):
        panel.set_title(millions(moment) + " steps", fontsize="medium")
    _add_scale(figure, panels, scale, label)
    save(figure, path)


def _draw_map(panel: Axes, maps: Maps, values: np.ndarray, scale: Normalize) -> None:
    from matplotlib.patches import Rectangle

    ground = np.zeros((*maps.room.shape, 4))  # transparent
    ground[(maps.room >= 0) | doors(maps)] = _rgba(FLOOR)
    ground[maps.walls] = _rgba(WALL)
    panel.imshow(ground, interpolation="nearest")
    panel.imshow(np.ma.masked_invalid(values), cmap=COLOURS, norm=scale, interpolation="nearest")
    for y, x in np.argwhere(doors(maps)):
        panel.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor="black", linewidth=0.6))
    for room in range(maps.num_rooms):
        y, x = np.argwhere(maps.room == room).min(axis=0)
        panel.text(x - 1, y - 1, f"{room + 1}", fontsize=6, color="white", ha="center", va="center_baseline")


def _add_scale(figure: Figure, panels: np.ndarray, scale: Normalize, label: str) -> None:
    from matplotlib.cm import ScalarMappable

    bar = figure.colorbar(
        ScalarMappable(scale, COLOURS), ax=list(panels.flat), location="bottom", shrink=0.5, aspect=40, pad=0.02
    )
    bar.set_label(label + "; light grey: none; outlined: doors", fontsize="small")
    bar.ax.tick_params(labelsize="small")


def _indices(maps: Maps, moments: Sequence[int]) -> list[tuple[int, int]]:
    """Column and index of the moments that the run has come to."""
    found = ((column, maps.at(moment)) for column, moment in enumerate(moments))
    return [(column, index) for column, index in found if index is not None]


def _positive(values: np.ndarray) -> np.ndarray:
    """The values where they are above 0, elsewhere NaN."""
    return np.where(values > 0, values, np.nan)


def _rgba(colour: str) -> tuple[float, float, float, float]:
    from matplotlib.colors import to_rgba

    return to_rgba(colour)
