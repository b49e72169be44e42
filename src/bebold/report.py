"""What one or more run folders say, as a table."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bebold.checkpoint import replacing
from bebold.config import TrainConfig
from bebold.errors import UsageError, read_text
from bebold.experiments.published import gives_up, published_return, solved_threshold, steps_to_solve
from bebold.gridworld.tasks import find_task
from bebold.runs import holds_run, read_metrics, verdict_file
from bebold.settings import commits, read_about, read_config, totals_before

if TYPE_CHECKING:
    from rich.table import Table

SMOOTHED = "charts/smoothed_return"
"""In records of runs without evaluations: the training return as smoothed before it was thinned."""
SMOOTHING = 50
"""Updates averaged in a training curve, which stands in where a run has no evaluations."""

COLUMNS = ("task", "method", "seed", "steps", "steps to solve", "return", "paper", "minutes")
"""Of a table with a line a run."""

_log = logging.getLogger(__name__)


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
    gave_up: bool
    """Whether it stopped early, as its last evaluations had a mean return near 0."""
    steps: int
    steps_to_solve: int | None
    minutes_to_solve: float
    """Minutes of work up to there; NaN if it was not solved."""
    minutes: float
    sampled: Mapping[str, Any]
    """The last verdict of `bebold eval` on these weights; empty if there is none."""
    greedy: Mapping[str, Any]
    repaired: Mapping[str, Any]
    """The same on the repaired levels, those of the task's -v1 id."""
    repaired_greedy: Mapping[str, Any]
    totals_before: Sequence[tuple[int, int]]
    """Where it was asked for other `total_steps`: the steps taken by then, and the total until then."""
    commit: str
    """Of the code that made the run; several, joined by `+`, if it was resumed on other code."""

    @property
    def name(self) -> str:
        """What its settings are called: the label, or else the method."""
        return self.config.name

    @property
    def stopped_solved(self) -> bool:
        """Whether it stopped early, as it had solved its task."""
        done = self.config.stop_when_solved and self.steps_to_solve is not None
        return done and self.steps < self.config.total_steps

    @property
    def end(self) -> float:
        """Steps up to which its curve stands: for a run that gave up, to the end of its budget."""
        return float(self.config.total_steps if self.gave_up else self.curve_steps[-1])

    def held_curve(self, longest: float) -> tuple[np.ndarray, np.ndarray]:
        """Steps and returns of the curve, which stays where it was once the run had stopped early: if it gave up, to
        the end of its budget; if it was solved, until `longest`, the last `end` of the runs like it."""
        last = longest if self.stopped_solved else self.end
        if last <= self.curve_steps[-1]:
            return self.curve_steps, self.curve_returns
        interval = self.config.evaluation.interval
        rest = np.append(np.arange(self.curve_steps[-1] + interval, last, interval), last)
        held = np.full(len(rest), self.curve_returns[-1])
        return np.append(self.curve_steps, rest), np.append(self.curve_returns, held)

    @property
    def last_return(self) -> float:
        """The mean return in Farama's environment if it was played; else the last point of the curve."""
        last = float(self.curve_returns[-1]) if len(self.curve_returns) else math.nan
        return self.sampled.get("return_mean", last)


def read_result(folder: Path) -> Result:
    """Read a run folder, finished or not.

    Raises
    ------
    UsageError : there is no run in `folder`
    RunError : a file cannot be read
    """
    config, about = read_config(folder), read_about(folder)
    metrics = read_metrics(folder)
    task = find_task(config.task)
    name = task.name
    steps, none = metrics["steps"], np.full(len(metrics["steps"]), np.nan)
    judged = metrics.get("eval/return_mean", none)
    there = np.isfinite(judged)
    evaluated = bool(there.any())
    if evaluated:
        curve_steps, curve_returns = steps[there], judged[there]
    elif SMOOTHED in metrics:
        known = np.isfinite(metrics[SMOOTHED])
        curve_steps, curve_returns = steps[known], metrics[SMOOTHED][known]
    else:
        curve_steps, curve_returns = _smooth(steps, metrics.get("charts/episodic_return", none))
    elapsed = metrics.get("time/elapsed", none)
    timed = np.isfinite(elapsed)
    last = int(steps[-1]) if len(steps) else 0
    changes = totals_before(about)
    evaluations = zip(steps[there].tolist(), judged[there].tolist(), strict=True)
    gave_up = gives_up(config, last, evaluations, asked_at=changes[-1][0] if changes else 0)
    solved = steps_to_solve(list(steps[there]), list(judged[there]), solved_threshold(name))
    return Result(
        folder=folder,
        config=config,
        task=name,
        curve_steps=curve_steps,
        curve_returns=curve_returns,
        evaluated=evaluated,
        gave_up=gave_up,
        steps=last,
        steps_to_solve=solved,
        minutes_to_solve=_minutes(elapsed[timed & (steps <= (-1 if solved is None else solved))]),
        minutes=_minutes(elapsed[timed]),
        sampled=_read_verdict(folder / verdict_file(repaired=False, greedy=False), last),
        greedy=_read_verdict(folder / verdict_file(repaired=False, greedy=True), last),
        repaired=_read_verdict(folder / verdict_file(repaired=True, greedy=False), last),
        repaired_greedy=_read_verdict(folder / verdict_file(repaired=True, greedy=True), last),
        totals_before=changes,
        commit="+".join(commits(about)),
    )


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run folders among `paths` and below them, but for runs that never began.

    Raises
    ------
    UsageError : there are no paths, or one holds no run
    """
    if not paths:
        raise UsageError("name run folders, or folders that hold some, such as: bebold report runs")
    folders: dict[Path, None] = {}
    for path in paths:
        found = [path] if (path / "config.yaml").exists() else sorted(p.parent for p in path.rglob("config.yaml"))
        below = [folder for folder in found if holds_run(folder)]
        if not below:
            raise UsageError(f"there is no run in {path}; give folders that `bebold train` made")
        folders |= dict.fromkeys(below)
    return list(folders)


def table(results: Sequence[Result]) -> Table:
    """One line a run."""
    from rich.table import Table

    view = Table(header_style="bold", caption=footnote(results) or None)
    for column in COLUMNS:
        view.add_column(column, justify="left" if column in ("task", "method") else "right")
    for result in results:
        view.add_row(*cells(result))
    return view


def cells(result: Result) -> tuple[str, ...]:
    """What a line about one run says, in the order of `COLUMNS`."""
    paper = published_return(result.task, result.config.method)
    return (
        result.task,
        result.name,
        str(result.config.seed),
        f"{result.steps:,}",
        "-" if result.steps_to_solve is None else f"{result.steps_to_solve:,}",
        _number(result.last_return, 3) + ("" if result.sampled else "*"),
        "-" if paper is None else f"{paper:.2f}",
        _number(result.minutes, 1),
    )


def footnote(results: Sequence[Result]) -> str:
    """What the star beside some returns means; nothing if there is none."""
    if all(result.sampled for result in results):
        return ""
    return "* last progress evaluation; `bebold eval` plays Farama's environment"


def write_csv(results: Sequence[Result], path: Path) -> None:
    """One line a run, and one more if it was judged on the repaired levels; what is not known stays empty.

    Raises
    ------
    RunError : `path` cannot be written
    """
    rows = []
    for result in results:
        rows.append(_row(result, result.task, result.steps_to_solve, result.sampled, result.greedy))
        if result.repaired or result.repaired_greedy:
            rows.append(_row(result, f"{result.task}-v1", None, result.repaired, result.repaired_greedy))
    write_rows(path, rows)


def write_rows(path: Path, rows: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> None:
    """A CSV file of these rows, keyed by its `columns`: by default those of the first row, which then must be there.

    Raises
    ------
    RunError : `path` cannot be written
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def _row(
    result: Result, task: str, solved: int | None, sampled: Mapping[str, Any], greedy: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "task": task,
        "method": result.name,
        "preset": result.config.preset,
        "seed": result.config.seed,
        "steps": result.steps,
        "steps_to_solve": solved,
        "return_mean": _rounded(sampled.get("return_mean")),
        "return_std": _rounded(sampled.get("return_std")),
        "return_greedy": _rounded(greedy.get("return_mean")),
        "episodes": sampled.get("episodes"),
        "minutes": _rounded(result.minutes, 2),
        "cores": result.config.workers,
        "commit": result.commit,
    }


def _smooth(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A running mean over up to `SMOOTHING` updates; those in which no episode ended are left out."""
    there = np.isfinite(values)
    steps, values = steps[there], values[there]
    sums = np.concatenate([[0.0], np.cumsum(values)])
    first = np.maximum(np.arange(len(values)) - SMOOTHING + 1, 0)
    return steps, (sums[1:] - sums[first]) / (np.arange(len(values)) - first + 1)


def _read_verdict(path: Path, steps: int) -> dict[str, Any]:
    """What `bebold eval` wrote if it is about the run as it stands after `steps`; else nothing."""
    if not path.exists():
        return {}
    try:
        verdict = json.loads(read_text(path))
        numbers = [verdict["return_mean"], verdict.get("return_std", 0.0), verdict.get("solved", 0.0)]
        if (
            not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
            or type(verdict.get("episodes", 0)) is not int
        ):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        _log.warning("%s is damaged and counts for nothing; `bebold eval` writes it anew", path)
        return {}
    return verdict if verdict.get("steps") == steps else {}


def _minutes(elapsed: np.ndarray) -> float:
    """The last of the seconds since the beginning, in minutes; NaN if there are none."""
    return float(elapsed[-1]) / 60 if len(elapsed) else math.nan


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"
