"""The compact record of a run, small enough to be kept for ever: itself a run folder that `bebold report` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bebold.checkpoint import replacing
from bebold.errors import UsageError
from bebold.report import Result
from bebold.runs import read_records, run_folder

POINTS = 32
"""Records kept of a run that was never evaluated; of others, those with an evaluation, and the last, are kept."""
DIGITS = 5
"""Significant digits kept."""
WHOLE = (
    "config.yaml",
    "summary.json",
    "evaluation.json",
    "evaluation-greedy.json",
    "evaluation-v1.json",
    "evaluation-v1-greedy.json",
)


def record(result: Result, root: Path) -> Path:
    """Write the record of a run to `root/<task>/<method>/<seed>`: settings, verdicts, thinned and rounded metrics.

    Raises
    ------
    UsageError : the record would take the place of the run
    RunError : it cannot be written
    """
    folder = run_folder(result.config, root)
    if folder.resolve() == result.folder.resolve():
        raise UsageError(f"{folder} is the run itself, of which a record keeps little; name another --record")
    records = read_records(result.folder / "metrics.jsonl")
    kept = [r for r in records if "eval/return_mean" in r] or records[:: max(1, len(records) // POINTS)]
    if records and kept[-1] is not records[-1]:
        kept.append(records[-1])
    with replacing(folder / "metrics.jsonl") as file:
        file.write("".join(json.dumps(_rounded(r)) + "\n" for r in kept).encode())
    for name in WHOLE:
        if (result.folder / name).exists():
            with replacing(folder / name) as file:
                file.write((result.folder / name).read_bytes())
    return folder


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Without the seconds of single stages, which say little afterwards."""
    return {
        key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for key, value in values.items()
        if key == "time/elapsed" or not key.startswith("time/")
    }
