"""The compact record of a run, small enough to be kept for ever: itself a run folder that `bebold report` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bebold import maps
from bebold.checkpoint import replacing
from bebold.errors import UsageError
from bebold.report import SMOOTHED, Result
from bebold.runs import read_records, run_folder, verdict_file

POINTS = 32
"""Lines with all metrics, about. Of a run with evaluations every one is kept, on lines of their own between these."""
OF_THE_MOMENT = ("steps", "eval/", "time/elapsed", SMOOTHED)
"""What is kept as it was; all other metrics are means over the updates since the line before."""
DIGITS = 5
"""Significant digits kept."""
WHOLE = (
    "config.yaml",
    "summary.json",
    maps.FILE,
    *(verdict_file(repaired=repaired, greedy=greedy) for repaired in (False, True) for greedy in (False, True)),
)


def record(results: Sequence[Result], root: Path) -> list[Path]:
    """Write a record of each run to `root/<task>/<name>/<seed>`: settings, verdicts, averaged and rounded metrics.

    Raises
    ------
    UsageError : see `places`; nothing is written
    RunError : they cannot be written
    """
    found = places(results, root)
    for folder, result in found.items():
        _write(result, folder)
    return list(found)


def places(results: Sequence[Result], root: Path) -> dict[Path, Result]:
    """Where the record of each run goes.

    Raises
    ------
    UsageError : a record would take the place of its run, or two runs have one place
    """
    places: dict[Path, Result] = {}
    for result in results:
        folder = run_folder(result.config, root)
        if folder.resolve() == result.folder.resolve():
            raise UsageError(f"{folder} is the run itself, of which a record keeps little; name another --record")
        if folder in places:
            raise UsageError(f"{places[folder].folder} and {result.folder} have one record, {folder}; keep them apart")
        places[folder] = result
    return places


def _write(result: Result, folder: Path) -> None:
    records = read_records(result.folder / "metrics.jsonl")
    if result.evaluated:
        places = [i for i, r in enumerate(records) if "eval/return_mean" in r]
    else:
        # The running mean is over all updates: those that are kept could not give it.
        smoothed = dict(zip(result.curve_steps.tolist(), result.curve_returns.tolist(), strict=True))
        records = [r | ({SMOOTHED: smoothed[r["steps"]]} if r["steps"] in smoothed else {}) for r in records]
        places = [i for i, r in enumerate(records) if r["steps"] in smoothed]
        places = places[:: max(1, len(places) // POINTS)] + places[-1:]
    with replacing(folder / "metrics.jsonl") as file:
        for line in _thinned(records, sorted({*places, len(records) - 1} if records else ())):
            file.write((json.dumps(_rounded(line)) + "\n").encode())
    for name in WHOLE:
        if (result.folder / name).exists():
            with replacing(folder / name) as file:
                file.write((result.folder / name).read_bytes())


def _thinned(records: Sequence[dict[str, Any]], places: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A line for each of `places`; about `POINTS` of them, the last included, have the means of all metrics."""
    every = max(1, round(len(places) / POINTS))
    averaged = 0
    for number, place in enumerate(places, start=1):
        line = {key: value for key, value in records[place].items() if key.startswith(OF_THE_MOMENT)}
        if number % every == 0 or number == len(places):
            line = _means(records[averaged : place + 1]) | line
            averaged = place + 1
        yield line


def _means(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each metric where it was known and finite; null where it never was."""
    keys = dict.fromkeys(key for record in records for key in record if not key.startswith(OF_THE_MOMENT))
    known = {key: [r[key] for r in records if r.get(key) is not None] for key in keys}
    return {key: float(np.mean(values)) if values else None for key, values in known.items()}


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Without the seconds of single stages, which say little afterwards."""
    return {
        key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for key, value in values.items()
        if key == "time/elapsed" or not key.startswith("time/")
    }
