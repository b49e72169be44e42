"""Rooms in numbers: how evenly each was visited, when it was first entered, where the bonus is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bebold.experiments.published import ENTROPY_STEPS, LAST_ROOM_STEPS, ROOM_ENTROPIES
from bebold.maps import Maps, entry_in_words
from bebold.report import write_rows
from bebold.tables import Table, spread

COLUMNS = ("method", "seed", "steps", "steps_taken", "room", "places", "visits", "entropy_bits", "first_entry")
"""Of the CSV file. `steps`: the moment asked for; `steps_taken`: those behind the run at its first maps after it."""


@dataclass(frozen=True)
class Explored:
    """The maps of one run."""

    method: str
    seed: int
    maps: Maps

    @property
    def title(self) -> str:
        return f"{self.method}, seed {self.seed}"


def places(maps: Maps) -> np.ndarray:
    """How many places each room has, int64 `[R]`."""
    return np.bincount(maps.room[maps.room >= 0], minlength=maps.num_rooms)


def millions(steps: int) -> str:
    return f"{steps / 1e6:.3g} M"


def entropies(runs: Sequence[Explored], moments: Sequence[int]) -> Table:
    """A line a room and moment: entropy of the visits within the room, ours and the paper's."""
    methods = list(dict.fromkeys(run.method for run in runs))
    size = places(runs[0].maps)
    rows = []
    for room in range(runs[0].maps.num_rooms):
        for moment in moments:
            ours = [_entropies([run.maps for run in runs if run.method == m], moment, room) for m in methods]
            paper = [_published(method, moment, room) for method in methods]
            if any(ours) or any(paper):
                bound = f"{np.log2(size[room]):.2f}"
                rows.append((f"{room + 1}", millions(moment), *map(_mean_and_std, ours), *paper, bound))
    return Table(
        "Entropy of the visits within each room",
        "In bits, of all steps so far: mean ± standard deviation over the seeds that had been in the room, their "
        "number in brackets. At most: if every place of the room were visited as often. The paper's level is not "
        "known, and its rooms may have other bounds; –: a dash in its table.",
        ("room", "steps", *methods, *(f"{method}, paper" for method in methods), "at most"),
        rows,
        words=0,
    )


def entries(runs: Sequence[Explored]) -> Table:
    """A line a run: environment steps until each room was first entered."""
    count = runs[0].maps.num_rooms
    return Table(
        "Steps until each room was first entered",
        "Millions of environment steps, all environments together. In the paper BeBold has been in all seven rooms by "
        f"{millions(LAST_ROOM_STEPS)}, and RND in five after 9.8 M.",
        ("method", "seed", *(f"room {room + 1}" for room in range(1, count))),
        [(run.method, f"{run.seed}", *map(entry_in_words, run.maps.first_entry[1:])) for run in runs],
        words=1,
    )


def races(runs: Sequence[Explored]) -> Table:
    """A line a seed that every method was trained with: which of them was sooner in the last room."""
    methods = list(dict.fromkeys(run.method for run in runs))
    rows = []
    for seed in dict.fromkeys(run.seed for run in runs):
        entered = {run.method: run.maps.first_entry for run in runs if run.seed == seed}
        if entered.keys() == set(methods):
            last = [entry_in_words(entered[method][-1]) for method in methods]
            found = [f"{(entered[method] >= 0).sum()}" for method in methods]
            rows.append((f"{seed}", *last, *found, sooner(entered)))
    return Table(
        "Which is sooner in the last room",
        "Millions of environment steps until the last room was first entered; rooms that were entered at all; which "
        "was sooner in the last room, or else in the farthest that any of them came to.",
        ("seed", *methods, *(f"rooms, {method}" for method in methods), "sooner"),
        rows,
        words=0,
    )


def sooner(entered: Mapping[str, np.ndarray]) -> str:
    """Whose first entry `[R]` into the farthest room that any has entered is the earliest; `neither` if two are."""
    farthest = np.flatnonzero((np.array(list(entered.values())) >= 0).any(axis=0))[-1]
    when = {method: int(entry[farthest]) for method, entry in entered.items() if entry[farthest] >= 0}
    first = [method for method, steps in when.items() if steps == min(when.values())]
    return first[0] if len(first) == 1 else "neither"


def best_paid(runs: Sequence[Explored], moments: Sequence[int]) -> Table:
    """A line a run: the room whose places had the highest bonus, and the one where the policy was most."""
    return Table(
        "Where the bonus was",
        "The room with the highest mean bonus a step when the policy played by itself, and in brackets the room where "
        "it spent most of these steps.",
        ("method", "seed", *map(millions, moments)),
        [(run.method, f"{run.seed}", *(_best_paid(run.maps, moment) for moment in moments)) for run in runs],
        words=1,
    )


def write_csv(runs: Sequence[Explored], moments: Sequence[int], path: Path) -> None:
    """One line a run, moment and room, of `COLUMNS`; what is not known is left empty.

    Raises
    ------
    RunError : `path` cannot be written
    """
    rows = []
    for run in runs:
        maps, size, entropy = run.maps, places(run.maps), run.maps.entropies()
        for moment in moments:
            index = maps.at(moment)
            if index is None:
                continue
            for room, entry in enumerate(maps.first_entry.tolist()):
                visits = int(maps.visits[index][maps.room == room].sum())
                bits = f"{entropy[index, room]:.4f}" if visits else ""
                taken = int(maps.steps[index])
                then = entry if 0 <= entry <= taken else ""
                values = (run.method, run.seed, moment, taken, room + 1, size[room], visits, bits, then)
                rows.append(dict(zip(COLUMNS, values, strict=True)))
    write_rows(path, rows, COLUMNS)


def _entropies(runs: Sequence[Maps], moment: int, room: int) -> list[float]:
    """Of the runs that had been in the room."""
    found = [maps.entropies()[index, room] for maps in runs if (index := maps.at(moment)) is not None]
    return [float(value) for value in found if np.isfinite(value)]


def _mean_and_std(values: Sequence[float]) -> str:
    return f"{spread(values)} ({len(values)})" if values else ""


def _published(method: str, moment: int, room: int) -> str:
    """The paper's number; a dash where it has one, nothing where it says nothing."""
    table = ROOM_ENTROPIES.get(method, ())
    if moment not in ENTROPY_STEPS or room >= len(table):
        return ""
    value = table[room][ENTROPY_STEPS.index(moment)]
    return "–" if value is None else f"{value:.2f}"


def _best_paid(maps: Maps, moment: int) -> str:
    index = maps.at(moment)
    if index is None:
        return ""
    inside = maps.room >= 0
    share = maps.density[index][inside].astype(np.float64)
    paid = np.nan_to_num(maps.bonus[index][inside].astype(np.float64)) * share
    spent = np.bincount(maps.room[inside], weights=share, minlength=maps.num_rooms)
    earned = np.bincount(maps.room[inside], weights=paid, minlength=maps.num_rooms)
    mean = np.divide(earned, spent, out=np.zeros_like(earned), where=spent > 0)
    best = f"{mean.argmax() + 1}" if mean.max() > 0 else "none"
    return f"{best} ({spent.argmax() + 1})"
