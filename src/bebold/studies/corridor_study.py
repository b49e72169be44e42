"""The paper's long-corridor study: short-sightedness of count-based exploration, and what BeBold makes of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bebold.checkpoint import replacing
from bebold.studies.corridor import LENGTHS, Exploration, Maze, Setting, entropy, explore
from bebold.studies.corridor_deep import explore_with_networks
from bebold.studies.corridor_figure import draw
from bebold.tables import Table

TITLE = "Short-sightedness in four corridors of 40, 10, 30 and 10 cells"
SEEDS = {"table": tuple(range(11, 31)), "networks": tuple(range(11, 21))}
"""Of reported runs, with tables and with networks. Settings were sought on seeds below 10 and from 101 up."""
TUNING_SEEDS = tuple(range(101, 106))
"""Of the search over settings."""

COUNT, BEBOLD = Setting(difference=False), Setting(difference=True, episodic=True)
"""Count-based, n(s'); and BeBold, (n(s') - n(s)) 1{N_e(s') = 1}: its clipping alone is left out, as in the paper."""
WARM = 0.1
"""Temperature with networks (ours): their Q follows the bonus more slowly than a table does, and errs."""
METHODS = {
    "count-tabular": COUNT,
    "bebold-tabular": BEBOLD,
    "rnd": replace(COUNT, temperature=WARM),
    "bebold": replace(BEBOLD, temperature=WARM),
}
"""The rows of the paper's table."""
CONTROLS = {
    "count-tabular, first visits only": replace(COUNT, episodic=True),
    "bebold-tabular, all visits": replace(BEBOLD, episodic=False),
    "random walk": replace(COUNT, epsilon=1.0),
    "rnd, first visits only": replace(METHODS["rnd"], episodic=True),
    "bebold, all visits": replace(METHODS["bebold"], episodic=False),
}
"""What else tells the parts of the criterion apart."""
PAPER = {
    "count-tabular": ("66 ± 28", "8 ± 8", "23 ± 35", "13 ± 18", "1.06 ± 0.39"),
    "bebold-tabular": ("26 ± 2", "28 ± 8", "25 ± 6", "29 ± 9", "1.97 ± 0.02"),
    "rnd": ("0.2 ± 0.2", "70 ± 53", "0.2 ± 0.07", "26 ± 44", "0.24 ± 0.28"),
    "bebold": ("27 ± 6", "23 ± 3", "31 ± 12", "26 ± 8", "1.96 ± 0.05"),
}
"""Visits in thousands and bits, over 4 runs (BeBold, Section 4.3's table)."""
GRID = {
    "step_size": (0.01, 0.1, 0.5),
    "discount": (0.9, 0.99, 1.0),
    "rule": (
        {"temperature": 0.01},
        {"temperature": 0.03},
        {"temperature": 0.1},
        {"temperature": 0.0, "epsilon": 0.01},
        {"temperature": 0.0, "epsilon": 0.1},
    ),
}
"""Settings of the tables that the search goes through."""
SEARCHED = {
    "count": COUNT,
    "count, first visits": replace(COUNT, episodic=True),
    "bebold, all visits": replace(BEBOLD, episodic=False),
    "bebold": BEBOLD,
}


def run(folder: Path, *, smoke: bool, at_once: int, quiet: bool) -> None:
    """Write `corridor.csv`, `tables.md`, `sensitivity.csv`, `sensitivity.md` and `corridor.png`.

    All of it takes some minutes of one core and starts from the beginning; `at_once` is not used.

    Parameters
    ----------
    smoke : few seeds and episodes, one setting of the search: the same path, no result
    quiet : say nothing

    Raises
    ------
    RunError : a file cannot be written
    """
    say: Callable[[str], None] = (lambda _: None) if quiet else print
    few = {"episodes": 6} if smoke else {}
    found: dict[bool, dict[str, list[Exploration]]] = {}
    for ends in (False, True):
        found[ends] = {}
        for name, setting in {**METHODS, **CONTROLS}.items():
            say(f"{name}, {reading(ends)}")
            found[ends][name] = explorations(name, replace(setting, ends=ends, **few), 2 if smoke else None)
    write_csv(found[False], folder / "corridor.csv")
    tables = [main_table(found[False]), *(reading_table(runs, ends) for ends, runs in found.items())]
    _write(folder / "tables.md", TITLE, tables)
    draw({name: found[False][name] for name in METHODS}, folder / "corridor.png")
    say("search over settings")
    rows = search(TUNING_SEEDS[: 1 if smoke else None], smoke=smoke, **few)
    _write_rows(folder / "sensitivity.csv", rows)
    _write(folder / "sensitivity.md", f"{TITLE}: other settings", [search_table(rows, ends) for ends in (False, True)])


def reading(ends: bool) -> str:
    """What the paper leaves open, in words."""
    return "episodes end at a corridor's end" if ends else "episodes of fixed length"


def explorations(name: str, setting: Setting, seeds: int | None = None) -> list[Exploration]:
    """All runs of a method, or the first few."""
    maze = Maze(LENGTHS)
    if name.startswith(("rnd", "bebold")) and "tabular" not in name:
        return explore_with_networks(maze, setting, SEEDS["networks"][:seeds])
    return [explore(maze, setting, seed) for seed in SEEDS["table"][:seeds]]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± standard deviation over runs (n - 1)."""
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{np.mean(values):.{digits}f} ± {deviation:.{digits}f}"


def write_csv(found: Mapping[str, Sequence[Exploration]], path: Path) -> None:
    """The paper's rows: mean visits of each corridor, and the entropy of a run's visits, in bits.

    Raises
    ------
    RunError : `path` cannot be written
    """
    rows = []
    for method in METHODS:
        runs = found[method]
        bits = [entropy(run.visits) for run in runs]
        row: dict[str, object] = {"method": method}
        row |= {f"visits_{j + 1}": round(np.mean([run.visits[j] for run in runs])) for j in range(len(LENGTHS))}
        row |= {"entropy_mean": round(float(np.mean(bits)), 4), "entropy_std": round(float(np.std(bits, ddof=1)), 4)}
        rows.append(row | {"seeds": len(runs)})
    _write_rows(path, rows)


def main_table(found: Mapping[str, Sequence[Exploration]]) -> Table:
    """The paper's table, its numbers and ours."""
    rows = []
    for method, paper in PAPER.items():
        runs = found[method]
        visits = [spread([run.visits[j] / 1e3 for run in runs], 1) for j in range(len(LENGTHS))]
        bits = spread([entropy(run.visits) for run in runs])
        rows.append([method, "paper", "4", *paper, ""])
        rows.append([method, "ours", str(len(runs)), *visits, bits, f"{np.mean([run.found for run in runs]):.0f}"])
    return Table(
        "Visits of each corridor",
        f"Thousands of steps that arrived in it, mean ± standard deviation over runs; {reading(False)}. "
        "Entropy in bits, of a run's visits, averaged over runs; 2 is uniform. The last column: cells found, of 90.",
        ["method", "", "runs", *(f"{length} cells" for length in LENGTHS), "entropy", "found"],
        rows,
        words=2,
    )


def reading_table(found: Mapping[str, Sequence[Exploration]], ends: bool) -> Table:
    """All methods and controls under one reading of the paper."""
    rows = []
    for name, runs in found.items():
        visits = [f"{np.mean([run.visits[j] for run in runs]) / 1e3:.1f}" for j in range(len(LENGTHS))]
        measures = ([entropy(getattr(run, what)) for run in runs] for what in ("visits", "entries"))
        cells = spread([entropy(run.cells[1:]) for run in runs])
        rows.append([name, str(len(runs)), *visits, *map(spread, measures), cells])
        rows[-1].append(spread([run.found for run in runs], 0))
    return Table(
        f"Methods and controls: {reading(ends)}",
        "Visits in thousands, means over runs. Entropies in bits: of steps over corridors (uniform: 2), "
        "of entries into them (2), of steps over cells (6.49).",
        ["method", "runs", *(f"{length} cells" for length in LENGTHS), "steps", "entries", "over cells", "found"],
        rows,
        words=1,
    )


def search(seeds: Sequence[int], *, smoke: bool = False, **few: int) -> list[dict[str, object]]:
    """Tabular runs over `GRID`, one row a reading and a setting, or the first setting alone."""
    maze, rows = Maze(LENGTHS), []
    settings = [
        {"ends": ends, "step_size": step_size, "discount": discount, "temperature": 0.0, "epsilon": 0.0} | rule
        for ends in (False, True)
        for step_size in GRID["step_size"]
        for discount in GRID["discount"]
        for rule in GRID["rule"]
    ]
    for setting in settings[:1] if smoke else settings:
        row: dict[str, object] = dict(setting)
        for name, method in SEARCHED.items():
            runs = [explore(maze, replace(method, **setting, **few), seed) for seed in seeds]
            bits = [entropy(run.visits) for run in runs]
            row[name] = spread(bits)
            row[f"{name}: found"] = round(float(np.mean([run.found for run in runs])), 1)
        rows.append(row)
    return rows


def search_table(rows: Sequence[Mapping[str, object]], ends: bool) -> Table:
    """The search as Markdown."""
    cells = []
    for row in rows:
        if row["ends"] == ends:
            rule = f"ε-greedy, {row['epsilon']}" if row["epsilon"] else f"softmax, {row['temperature']}"
            results = [f"{row[name]} ({row[f'{name}: found']:.0f})" for name in SEARCHED]
            cells.append([f"{row['step_size']}", f"{row['discount']}", rule, *results])
    return Table(
        f"Tabular Q-learning: {reading(ends)}",
        f"Entropy of steps over corridors in bits, mean ± standard deviation over {len(TUNING_SEEDS)} runs, "
        "and in brackets the mean number of cells found, of 90.",
        ["α", "γ", "exploration", *SEARCHED],
        cells,
        words=3,
    )


def _write(path: Path, title: str, tables: Sequence[Table]) -> None:
    with replacing(path) as file:
        file.write("\n".join([f"# {title}\n", *(table.markdown() for table in tables)]).encode())


def _write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with replacing(path) as file:
        file.write(text.getvalue().encode())
