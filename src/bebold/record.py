"""The compact record of a run, small enough to be kept for ever: itself a run folder that `bebold report` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bebold.checkpoint import replacing
from bebold.errors import UsageError
from bebold.report import SMOOTHED, Result
from bebold.runs import read_records, run_folder, verdict_file

POINTS = 32
"""Records kept of a run that was never evaluated; of others, those with an evaluation, and the last, are kept."""
DIGITS = 5
"""Significant digits kept."""
WHOLE = (
    "config.yaml",
    "summary.json",
    *(verdict_file(repaired=repaired, greedy=greedy) for repaired in (False, True) for greedy in (False, True)),
)


def record(results: Sequence[Result], root: Path) -> list[Path]:
    """Write a record of each run to `root/<task>/<name>/<seed>`: settings, verdicts, thinned and rounded metrics.

    Raises
    ------
    UsageError : a record would take the place of its run, or two runs have one place; nothing is written
    RunError : they cannot be written
    """
    places: dict[Path, Result] = {}
    for result in results:
        folder = run_folder(result.config, root)
        if folder.resolve() == result.folder.resolve():
            raise UsageError(f"{folder} is the run itself, of which a record keeps little; name another --record")
        if folder in places:
            raise UsageError(f"{places[folder].folder} and {result.folder} have one record, {folder}; keep them apart")
        places[folder] = result
    for folder, result in places.items():
        _write(result, folder)
    return list(places)


def _write(result: Result, folder: Path) -> None:
    records = read_records(result.folder / "metrics.jsonl")
    if result.evaluated:
        kept = [r for r in records if "eval/return_mean" in r]
    else:
        # The running mean is over all updates: those that are kept could not give it.
        smoothed = dict(zip(result.curve_steps.tolist(), result.curve_returns.tolist(), strict=True))
        known = [r | {SMOOTHED: smoothed[r["steps"]]} for r in records if r["steps"] in smoothed]
        kept = known[:: max(1, len(known) // POINTS)]
        kept += [] if not known or kept[-1] is known[-1] else known[-1:]
    if records and (not kept or kept[-1]["steps"] != records[-1]["steps"]):
        kept.append(records[-1])
    with replacing(folder / "metrics.jsonl") as file:
        file.write("".join(json.dumps(_rounded(r)) + "\n" for r in kept).encode())
    for name in WHOLE:
        if (result.folder / name).exists():
            with replacing(folder / name) as file:
                file.write((result.folder / name).read_bytes())


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Without the seconds of single stages, which say little afterwards."""
    return {
        key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for key, value in values.items()
        if key == "time/elapsed" or not key.startswith("time/")
    }
