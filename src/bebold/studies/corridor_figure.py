"""Where the agents of the corridor study are, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bebold.curves import add_key, new_figure, save, tidy
from bebold.studies.corridor import LENGTHS, Exploration

SHADES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
"""Of the corridors: Okabe and Ito's, which colour-blind readers tell apart."""
WINDOW = 10
"""Episodes whose visits are averaged in the upper row."""
POINTS = 120
"""Moments that are drawn."""


def draw(found: Mapping[str, Sequence[Exploration]], path: Path) -> None:
    """One PNG, a column a method: shares of the visits of its first run, and cumulative visits over all runs.

    Raises
    ------
    RunError : `path` cannot be written
    """
    figure = new_figure(2.9 * len(found) + 0.6, 6.0)
    panels = figure.subplots(2, len(found), squeeze=False, sharex=True, sharey="row")
    names = [f"{j + 1}: {length} cells" for j, length in enumerate(LENGTHS)]
    for (method, runs), above, below in zip(found.items(), *panels, strict=True):
        curves = np.stack([run.curve for run in runs]) / 1e3  # [runs, episodes, K]
        shown = np.unique(np.linspace(0, curves.shape[1] - 1, POINTS).astype(int))
        curves, episodes = curves[:, shown], shown + 1
        above.stackplot(episodes, shares(runs[0].curve)[shown].T, colors=SHADES, labels=names, linewidth=0)
        above.set_title(method, fontsize="medium")
        above.set_ylim(0, 1)
        above.margins(x=0)
        for j, colour in enumerate(SHADES):
            below.plot(episodes, curves[:, :, j].T, color=colour, linewidth=0.5, alpha=0.35)
            below.plot(episodes, curves[:, :, j].mean(axis=0), color=colour, linewidth=2.2)
        below.set_xlabel("episodes of 180 steps")
        tidy(below)
    panels[1, 0].set_ylim(bottom=0)
    panels[0, 0].set_ylabel(f"share of visits, first run,\n{WINDOW} episodes at a time")
    panels[1, 0].set_ylabel("visits so far (thousands)")
    add_key(figure, list(panels[0]), "corridors; below, thin: each run, thick: their mean")
    save(figure, path)


def shares(curve: np.ndarray) -> np.ndarray:
    """Shares of the visits in the `WINDOW` episodes up to each, float64 `[episodes, K]`, of cumulative `curve`."""
    padded = np.concatenate([np.zeros((WINDOW, curve.shape[1])), curve])
    recent = padded[WINDOW:] - padded[:-WINDOW]
    return recent / np.maximum(recent.sum(axis=1, keepdims=True), 1)
