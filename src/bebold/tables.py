"""What sets of runs say together: returns beside the paper's, tasks solved, steps to solve, the repaired levels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bebold.checkpoint import replacing
from bebold.experiments.published import IN_A_ROW, SHARE, published_return, solved_threshold
from bebold.groups import OF_THE_BEST, Groups, any_gave_up, group, solved_at
from bebold.report import Result

if TYPE_CHECKING:
    import rich.table

CRITERION = (
    f"Solved: at the first of {IN_A_ROW} progress evaluations in a row at {100 * SHARE:.0f} % or more of BeBold's "
    "return in the paper."
)

MANY = 3
"""From so many tasks and methods on they are set side by side."""


@dataclass(frozen=True)
class Table:
    """Cells of text, to be printed in a terminal or written as GitHub's Markdown."""

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int
    """So many columns from the left hold words; the others hold numbers, which are set to the right."""

    def rich(self) -> rich.table.Table:
        from rich.table import Table as RichTable
        from rich.text import Text

        view = RichTable(title=self.title, caption=self.caption, header_style="bold")
        for index, column in enumerate(self.columns):
            view.add_column(column, justify="left" if index < self.words else "right")
        for row in self.rows:
            view.add_row(*map(Text, row))
        return view

    def markdown(self) -> str:
        rule = ["---" if index < self.words else "--:" for index in range(len(self.columns))]
        cells = [map(_escape, self.columns), rule, *(map(_escape, row) for row in self.rows)]
        lines = ["| " + " | ".join(row) + " |" for row in cells]
        return f"## {self.title}\n\n{self.caption}\n\n" + "\n".join(lines) + "\n"


def write(results: Sequence[Result], path: Path, title: str = "Results") -> None:
    """All tables that have a row, as one Markdown document.

    Raises
    ------
    RunError : `path` cannot be written
    """
    heading = f"# {title}\n\nOf {len(results)} run{'s' * (len(results) > 1)}.\n"
    write_below(heading, over_seeds(group(results)), path)


def write_below(heading: str, tables: Sequence[Table], path: Path) -> None:
    """A Markdown page: what stands above, then the tables.

    Raises
    ------
    RunError : `path` cannot be written
    """
    with replacing(path) as file:
        file.write("\n".join([heading, *(table.markdown() for table in tables)]).encode())


def spread(values: Sequence[float], digits: int = 2, *, ddof: int = 0) -> str:
    """Mean ± standard deviation of n values, at least one: with n - `ddof` below the squares, ± 0 where that is 0."""
    deviation = np.std(values, ddof=ddof) if len(values) > ddof else 0.0
    return f"{np.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def over_seeds(groups: Groups) -> list[Table]:
    """All tables that have a row."""
    every = (side_by_side(groups), learnt(groups), returns(groups), solved(groups), steps(groups), repaired(groups))
    return [table for table in every if table.rows]


def side_by_side(groups: Groups) -> Table:
    """A line a task, a column a method: the returns alone, where there are many."""
    tasks, names = _axes({key: runs for key, runs in groups.items() if _played(runs)})
    paper = {task: value for task in tasks if (value := published_return(task)) is not None}
    rows = []
    for task in tasks if min(len(tasks), len(names)) >= MANY else []:
        played = [[run.sampled["return_mean"] for run in _played(groups.get((task, name), ()))] for name in names]
        cells = [f"{np.mean(values):.3f}" if values else "" for values in played]
        if paper:
            cells.append(f"{paper[task]:.2f}" if task in paper else "")
        rows.append((task, *cells))
    return Table(
        "Side by side",
        "Mean over seeds of the final agents' mean returns in Farama's environment, with sampled actions."
        + _if_any_gave_up(groups, "Those that gave up have had a part of their steps.")
        + _of_stopped(groups),
        ("task", *names, "BeBold in the paper") if paper else ("task", *names),
        rows,
        words=1,
    )


def learnt(groups: Groups) -> Table:
    """A line a task of which the paper gives no return, a column a method: when each seed had learnt it, if there are
    methods to compare."""
    tasks, names = _axes(groups)
    rows = []
    for task in tasks if len(names) > 1 else []:
        beside = [run for name in names for run in groups.get((task, name), ()) if run.evaluated]
        if published_return(task) is None and beside:
            steps = ([solved_at(run, beside) for run in beside if run.name == name] for name in names)
            rows.append((task, *map(_millions, steps)))
    return Table(
        "Steps to learn",
        f"Each seed in millions of environment steps: the first of {IN_A_ROW} progress evaluations in a row at "
        f"{100 * OF_THE_BEST:.0f} % or more of what the best of all these runs has in its last {IN_A_ROW}, for tasks "
        "of which the paper gives no return.",
        ("task", *names),
        rows,
        words=1,
    )


def returns(groups: Groups) -> Table:
    """Mean and standard deviation over seeds, played on Farama's environment, beside the paper's number."""
    rows, episodes = [], set()
    for (task, name), runs in groups.items():
        played = [run.sampled for run in _played(runs)]
        greedy = [run.greedy for run in runs if _known(run.greedy, "return_mean")]
        episodes |= {str(verdict.get("episodes", "?")) for verdict in played + greedy}
        paper = published_return(task, runs[0].config.method)
        rows.append(
            (
                task,
                name,
                str(len(played)) if len(played) == len(runs) else f"{len(played)} of {len(runs)}",
                _mean_and_std([verdict["return_mean"] for verdict in played]),
                _mean_and_std([verdict["return_mean"] for verdict in greedy])
                + (f" ({len(greedy)} of {len(played)})" if 0 < len(greedy) < len(played) else ""),
                "" if paper is None else f"{paper:.2f}",
            )
        )
    levels = f", {' or '.join(sorted(episodes))} levels each" if episodes else ""
    return Table(
        "Returns",
        "Mean ± standard deviation over seeds of the final agents' mean returns in Farama's environment, with sampled "
        f"actions, and with greedy ones{levels}. Seeds that `bebold eval` has not judged are left out."
        + _if_any_gave_up(groups, "Those that gave up have had a part of their steps, and no greedy actions.")
        + _of_stopped(groups),
        ("task", "method", "seeds", "return", "greedy", "paper"),
        rows,
        words=2,
    )


def solved(groups: Groups) -> Table:
    """A line a method, a column a task of the paper: how many of the seeds solved it."""
    groups = _evaluated(groups)
    tasks, names = _axes(groups)
    rows = []
    for name in names:
        cells = []
        for task in tasks:
            runs = groups.get((task, name), ())
            number = sum(run.steps_to_solve is not None for run in runs)
            cells.append(f"{number}/{len(runs)}" if runs else "")
        rows.append((name, *cells))
    return Table(
        "Solved tasks",
        f"Seeds that solved the task, of those trained. {CRITERION}"
        + _if_any_gave_up(groups, "Those that gave up count as unsolved."),
        ("method", *tasks),
        rows,
        words=1,
    )


def steps(groups: Groups) -> Table:
    """When each seed solved its task, in environment steps and in minutes, and how long it was trained."""
    rows = []
    for (task, name), runs in _evaluated(groups).items():
        rows.append(
            (
                task,
                name,
                _list([run.config.seed for run in runs], 0),
                _millions([run.steps_to_solve for run in runs]),
                _list([run.minutes_to_solve for run in runs], 1),
                " to ".join(dict.fromkeys(f"{end(run.steps for run in runs) / 1e6:.1f}" for end in (min, max))),
                _list([run.minutes for run in runs], 1),
                ", ".join(map(str, dict.fromkeys(run.config.workers for run in runs))),
            )
        )
    return Table(
        "Steps to solve",
        f"Each seed in millions of environment steps; minutes are of work on so many cores. {CRITERION}"
        + _if_any_gave_up(groups, "Seeds that earned nothing gave up, and were trained less."),
        ("task", "method", "seeds", "solved at", "minutes to it", "trained", "minutes", "cores"),
        rows,
        words=2,
    )


def repaired(groups: Groups) -> Table:
    """The share of levels solved on the -v1 ids of ObstructedMaze, in which no key is lost."""
    rows = []
    for (task, name), runs in groups.items():
        played = [run for run in runs if _known(run.repaired, "solved")]
        if played:
            worst = min(played, key=lambda run: run.repaired["solved"])
            rows.append(
                (
                    f"{task}-v1",
                    name,
                    str(len(played)),
                    f"{np.mean([run.repaired['solved'] for run in played]):.1%}",
                    f"{worst.repaired['solved']:.1%} (seed {worst.config.seed})",
                    _mean_and_std([run.repaired["return_mean"] for run in played]),
                )
            )
    return Table(
        "Repaired levels",
        "Agents trained on the -v0 ids, in which a ball can take the place of the box that holds a key, played on the "
        "repaired -v1 ids of Farama: share of levels solved with sampled actions, mean over seeds and worst seed; mean "
        "return ± standard deviation over seeds.",
        ("task", "method", "seeds", "levels solved", "worst seed", "return"),
        rows,
        words=2,
    )


def _axes(groups: Groups) -> tuple[list[str], list[str]]:
    """The tasks and the methods, each once."""
    tasks, names = (list(dict.fromkeys(key[part] for key in groups)) for part in (0, 1))
    return tasks, names


def _played(runs: Sequence[Result]) -> list[Result]:
    """Those that `bebold eval` has judged."""
    return [run for run in runs if _known(run.sampled, "return_mean")]


def _evaluated(groups: Groups) -> Groups:
    """Those of which it is known whether they solved their task."""
    known = {
        key: [run for run in runs if run.evaluated]
        for key, runs in groups.items()
        if solved_threshold(key[0]) is not None
    }
    return {key: runs for key, runs in known.items() if runs}


def _if_any_gave_up(groups: Groups, sentence: str) -> str:
    return f" {sentence}" if any_gave_up(groups) else ""


def _of_stopped(groups: Groups) -> str:
    """Which runs stopped as they were solved, if any did."""
    tasks: dict[str, list[str]] = {}
    for (task, name), runs in groups.items():
        if any(run.stopped_solved for run in runs):
            tasks.setdefault(name, []).append(task)
    if not tasks:
        return ""
    listed = "; ".join(f"{name} on {', '.join(of)}" for name, of in tasks.items())
    return (
        f" Runs that stopped as they were solved, short of their steps: {listed}. What they earn is not to be held "
        "against what others came to in the end."
    )


def _known(verdict: Mapping[str, Any], key: str) -> bool:
    return bool(np.isfinite(verdict.get(key, np.nan)))


def _mean_and_std(values: Sequence[float]) -> str:
    if len(values) > 1:
        return spread(values, 3)
    return f"{values[0]:.3f}" if values else "-"


def _millions(steps: Sequence[int | None]) -> str:
    return _list([np.nan if at is None else at / 1e6 for at in steps], 2)


def _list(values: Sequence[float], digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" if np.isfinite(value) else "-" for value in values)


def _escape(cell: str) -> str:
    """A label may come from a stranger, and must not end a cell or begin a link."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(cell.split()))
