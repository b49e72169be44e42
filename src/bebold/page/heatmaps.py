"""Where agents have been in one level and what they were paid there, with a slider over the moments of the run."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from bebold.errors import RunError
from bebold.experiments.published import in_paper_order
from bebold.maps import FILE, Maps, entry_in_words
from bebold.page.colours import COLOURS, Scale, palette, scales
from bebold.page.elements import Html, element, join, prose, table
from bebold.report import Result

_log = logging.getLogger(__name__)

KINDS = {"visits": "Visits", "bonus": "Bonus", "density": "Density"}
"""What a page shows of `Maps`."""
WORDS = (
    "One level, the same in every episode. Visits: steps that led to each cell so far. Density and bonus are of the "
    "policy's own steps at a checkpoint: the share of them that led to each cell, and the mean bonus before β that "
    "they were paid there. Walls are grey; cells without a step, or without a bonus, light. The colours of "
    "visits and density are logarithmic and the same in all maps of a seed; the bonus has a scale of its own in each "
    "map, since those of different methods have no unit in common."
)
BAR = 64
"""Steps of a colour bar."""


def heatmaps(results: Sequence[Result]) -> Html | None:
    """A block for each task and seed with maps, its methods side by side; None if no run has any."""
    found: dict[tuple[str, int], list[tuple[str, Maps]]] = {}
    for task in in_paper_order(result.task for result in results):
        for result in sorted((r for r in results if r.task == task), key=lambda r: r.config.seed):
            maps = _read(result)
            if maps is not None:
                found.setdefault((task, result.config.seed), []).append((result.name, maps))
    if not found:
        return None
    blocks = [_block(f"{task}, seed {seed}", methods) for (task, seed), methods in found.items()]
    colours = element("script", Html(json.dumps(palette())), type="application/json", id="palette")
    return join(prose(WORDS), colours, *blocks)


def data(maps: Maps, of: dict[str, list[Scale]]) -> dict[str, object]:
    """What the slider shows: the cells `[N]` as (x, y), and for each kind its values `[K][N]`; elsewhere is nothing.

    A NaN is null. Numbers of 32 bits are written with as many digits as tell them apart.
    """
    y, x = _cells(maps)
    return {
        "cells": np.stack([x, y], axis=1).tolist(),
        "steps": _moments(maps),
        "values": {kind: [_plain(values[y, x]) for values in getattr(maps, kind)] for kind in KINDS},
        "scales": {
            kind: [asdict(scale) | {"ticks": _ticks(kind, scale)} for scale in every] for kind, every in of.items()
        },
    }


def _read(result: Result) -> Maps | None:
    path = result.folder / FILE
    if not path.exists():
        return None
    try:
        maps = Maps.load(path)
    except RunError as error:
        _log.warning("%s: the page goes without these maps", error)
        return None
    return maps if len(maps.steps) else None


def _block(title: str, methods: Sequence[tuple[str, Maps]]) -> Html:
    every = scales([maps for _, maps in methods])
    contents = [data(maps, of) for (_, maps), of in zip(methods, every, strict=True)]
    last = max(len(maps.steps) for _, maps in methods) - 1
    moment = element("label", "Checkpoint ", element("input", type="range", min=0, max=last, value=last, step=1))
    slider = element("div", moment, element("output", f"{last + 1} of {last + 1}"), class_="slider", hidden=True)
    rows = [
        join(
            element("h4", words),
            element(
                "div",
                *(
                    _figure(name, number, kind, maps, of[kind][-1])
                    for number, ((name, maps), of) in enumerate(zip(methods, every, strict=True))
                ),
                class_="maps",
            ),
        )
        for kind, words in KINDS.items()
    ]
    # Of what stands in a script element only "</script" and "<!--" would be read as HTML.
    text = json.dumps(contents, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    script = element("script", Html(text), type="application/json")
    return element("section", element("h3", title), slider, *rows, _first_entries(methods), script, class_="study")


def _figure(name: str, number: int, kind: str, maps: Maps, scale: Scale) -> Html:
    """The last checkpoint; with JavaScript the slider changes it."""
    y, x = _cells(maps)
    left, top, width, height = _frame(maps)
    colours = [palette()[i] if i >= 0 else "none" for i in scale.colour(getattr(maps, kind)[-1][y, x])]
    cells = [
        element("rect", x=int(i), y=int(j), width=1, height=1, fill=colour)
        for i, j, colour in zip(x, y, colours, strict=True)
    ]
    walls = " ".join(f"M{i} {j}h1v1h-1z" for j, i in np.argwhere(maps.walls))
    drawing = element(
        "svg",
        element("rect", x=left, y=top, width=width, height=height, class_="ground"),
        element("path", d=walls, class_="wall"),
        element("g", *cells),
        viewBox=f"{left} {top} {width} {height}",
        role="img",
        aria_label=f"{kind} of {name} in each cell",
    )
    return element(
        "figure",
        element("figcaption", element("b", name), " ", element("span", _moments(maps)[-1], class_="steps")),
        drawing,
        _bar(),
        element("div", *(element("span", tick) for tick in _ticks(kind, scale)), class_="ticks"),
        data_kind=kind,
        data_method=number,
    )


def _bar() -> Html:
    steps = (palette()[(2 * i + 1) * COLOURS // (2 * BAR)] for i in range(BAR))
    return element(
        "svg",
        *(element("rect", x=i, y=0, width=1, height=1, fill=colour) for i, colour in enumerate(steps)),
        viewBox=f"0 0 {BAR} 1",
        preserveAspectRatio="none",
        class_="bar",
        aria_hidden="true",
    )


def _first_entries(methods: Sequence[tuple[str, Maps]]) -> Html:
    rooms = max(maps.num_rooms for _, maps in methods)
    rows = [[name, *map(entry_in_words, maps.first_entry), *[""] * (rooms - maps.num_rooms)] for name, maps in methods]
    return join(
        element("p", "Environment steps, in millions, until each room was first entered; the agent starts in room 1."),
        table(["method", *(f"room {number}" for number in range(1, rooms + 1))], rows, words=1),
    )


def _cells(maps: Maps) -> tuple[np.ndarray, np.ndarray]:
    """y and x, `[N]` each, of the cells with anything to show at any checkpoint."""
    shown = (maps.visits > 0) | (maps.density > 0) | np.isfinite(maps.bonus)
    y, x = np.nonzero(shown.any(axis=0))
    return y, x


def _frame(maps: Maps) -> tuple[int, int, int, int]:
    """Left, top, width and height of what there is of the level: rooms may fill a corner of the grid."""
    y, x = (np.concatenate(parts) for parts in zip(np.nonzero(maps.walls), _cells(maps), strict=True))
    if not len(x):
        return 0, 0, maps.walls.shape[1], maps.walls.shape[0]
    return int(x.min()), int(y.min()), int(np.ptp(x)) + 1, int(np.ptp(y)) + 1


def _moments(maps: Maps) -> list[str]:
    return [f"{steps / 1e6:.2f} million steps" for steps in maps.steps]


def _plain(values: np.ndarray) -> list[float | int | None]:
    if values.dtype.kind == "i":
        return values.tolist()
    return [float(str(value)) if np.isfinite(value) else None for value in values]


def _ticks(kind: str, scale: Scale) -> list[str]:
    values = (scale.low, scale.middle(), scale.high)
    if kind == "visits":
        return [f"{value:,.0f}" for value in values]
    return [f"{100 * value:.2g} %" if kind == "density" else f"{value:.2g}" for value in values]
