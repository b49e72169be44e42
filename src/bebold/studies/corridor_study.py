"""The paper's long-corridor study: short-sightedness of count-based exploration, and what BeBold makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bebold.report import write_rows
from bebold.studies.corridor import LENGTHS, Exploration, Maze, Setting, entropy, explore
from bebold.studies.corridor_deep import NetworkSetting, explore_with_networks
from bebold.studies.corridor_figure import draw
from bebold.tables import Table, spread, write_below

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
"""Visits in thousands and bits, over 4 runs (BeBold, Section 5.2's table)."""
STEP_SIZES, DISCOUNTS = (0.01, 0.1, 0.5), (0.9, 0.99, 1.0)
RULES = ((0.01, 0.0), (0.03, 0.0), (0.1, 0.0), (0.0, 0.01), (0.0, 0.1))
"""Temperature and ε: with `STEP_SIZES` and `DISCOUNTS` what the search goes through."""
NETWORK_SEARCH = ((0.01, 1e-3), (0.03, 1e-3), (0.1, 1e-3), (0.3, 1e-3), (0.1, 1e-4))
"""Temperature and Adam's step size of φ'."""
SMOKE_EPISODES = 6
SEARCHED = {
    "count": COUNT,
    "count, first visits": replace(COUNT, episodic=True),
    "bebold, all visits": replace(BEBOLD, episodic=False),
    "bebold": BEBOLD,
}
over_runs = partial(spread, ddof=1)
"""Mean ± standard deviation over runs (n - 1), in words."""


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
    found: dict[bool, dict[str, list[Exploration]]] = {False: {}, True: {}}
    for ends, runs in found.items():
        for name, setting in {**METHODS, **CONTROLS}.items():
            say(f"{name}, {reading(ends)}")
            runs[name] = explorations(name, shortened(replace(setting, ends=ends), smoke), 2 if smoke else None)
        if not ends:
            write_csv(runs, folder / "corridor.csv")
            draw({name: runs[name] for name in METHODS}, folder / "corridor.png")
    tables = [main_table(found[False]), *(reading_table(runs, ends) for ends, runs in found.items())]
    write_below(f"# {TITLE}\n", tables, folder / "tables.md")
    say("search over settings")
    seeds = TUNING_SEEDS[: 1 if smoke else None]
    rows = search(seeds, smoke=smoke)
    write_rows(folder / "sensitivity.csv", rows)
    searched = [search_table(rows, ends) for ends in (False, True)]
    searched += [network_table(seeds, smoke=smoke), counts_table(rows)]
    write_below(f"# {TITLE}: other settings\n", searched, folder / "sensitivity.md")


def reading(ends: bool) -> str:
    """What the paper leaves open, in words."""
    return "episodes end at a corridor's end" if ends else "episodes of fixed length"


def shortened(setting: Setting, smoke: bool) -> Setting:
    """The setting, or for a smoke test the same over a few episodes."""
    return replace(setting, episodes=SMOKE_EPISODES) if smoke else setting


def explorations(name: str, setting: Setting, seeds: int | None = None) -> list[Exploration]:
    """All runs of a method, or the first few."""
    maze = Maze(LENGTHS)
    if name.startswith(("rnd", "bebold")) and "tabular" not in name:
        return explore_with_networks(maze, setting, SEEDS["networks"][:seeds])
    return [explore(maze, setting, seed) for seed in SEEDS["table"][:seeds]]


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
    write_rows(path, rows)


def main_table(found: Mapping[str, Sequence[Exploration]]) -> Table:
    """The paper's table, its numbers and ours."""
    rows = []
    for method, paper in PAPER.items():
        runs = found[method]
        visits = [over_runs([run.visits[j] / 1e3 for run in runs], 1) for j in range(len(LENGTHS))]
        bits = over_runs([entropy(run.visits) for run in runs])
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
        cells = over_runs([entropy(run.cells[1:]) for run in runs])
        rows.append([name, str(len(runs)), *visits, *map(over_runs, measures), cells])
        rows[-1].append(over_runs([run.found for run in runs], 0))
    return Table(
        f"Methods and controls: {reading(ends)}",
        "Visits in thousands, means over runs. Entropies in bits: of steps over corridors (uniform: 2), "
        "of entries into them (2), of steps over cells (6.49).",
        ["method", "runs", *(f"{length} cells" for length in LENGTHS), "steps", "entries", "over cells", "found"],
        rows,
        words=1,
    )


def search(seeds: Sequence[int], *, smoke: bool = False) -> list[dict[str, object]]:
    """Tabular runs under both readings and all settings, one row each; in a smoke test under the first alone."""
    maze, rows = Maze(LENGTHS), []
    for ends, step_size, discount, rule in itertools.product((False, True), STEP_SIZES, DISCOUNTS, RULES):
        learner = Setting(
            difference=False, step_size=step_size, discount=discount, temperature=rule[0], epsilon=rule[1], ends=ends
        )
        names = ("ends", "step_size", "discount", "temperature", "epsilon")
        row: dict[str, object] = {name: getattr(learner, name) for name in names}
        for name, method in SEARCHED.items():
            setting = replace(shortened(learner, smoke), difference=method.difference, episodic=method.episodic)
            runs = [explore(maze, setting, seed) for seed in seeds]
            row[name] = over_runs([entropy(run.visits) for run in runs])
            row[f"{name}: found"] = round(float(np.mean([run.found for run in runs])), 1)
        rows.append(row)
        if smoke:
            break
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


def counts_table(rows: Sequence[Mapping[str, object]]) -> Table:
    """In how many settings of the search BeBold and counting come how far, by the means that its rows print."""
    cells = []
    for ends in (False, True):
        some = [row for row in rows if row["ends"] == ends]
        warm = [row for row in some if row["temperature"] and row["discount"] != 1]
        bits, soft = ([[float(str(row[x]).split()[0]) for x in ("bebold", "count")] for row in s] for s in (some, warm))
        cells.append([reading(ends), f"{sum(b > c for b, c in bits)} of {len(bits)}"])
        cells[-1] += [f"{sum(pair[i] >= 1.95 for pair in bits)} of {len(bits)}" for i in (0, 1)]
        cells[-1] += [f"{sum(pair[i] >= 1.9 for pair in soft)} of {len(soft)}" for i in (0, 1)]
    return Table(
        "Counts of tabular settings",
        "By mean entropies rounded as above: BeBold above counting; each with 1.95 bits or more; each with 1.9 or more "
        "among settings with softmax and γ below 1.",
        ["", "bebold above count", "bebold, 1.95", "count, 1.95", "bebold, softmax, 1.9", "count, softmax, 1.9"],
        cells,
        words=1,
    )


def network_table(seeds: Sequence[int], *, smoke: bool = False) -> Table:
    """RND and BeBold at other temperatures and step sizes of φ'."""
    cells = []
    for temperature, rnd_rate in NETWORK_SEARCH[: 1 if smoke else None]:
        cells.append([f"{temperature}", f"{rnd_rate}"])
        for name in ("rnd", "bebold"):
            setting = shortened(replace(METHODS[name], temperature=temperature), smoke)
            runs = explore_with_networks(Maze(LENGTHS), setting, seeds, NetworkSetting(rnd_rate=rnd_rate))
            found = float(np.mean([run.found for run in runs]))
            cells[-1].append(f"{over_runs([entropy(run.visits) for run in runs])} ({found:.0f})")
    return Table(
        f"Networks: {reading(False)}",
        f"As above, over {len(seeds)} runs.",
        ["temperature", "step size of φ'", "rnd", "bebold"],
        cells,
        words=2,
    )
