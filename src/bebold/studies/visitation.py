"""Pure exploration of one level: where BeBold and RND go, and what they are paid there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bebold.experiments import visitation as experiment
from bebold.maps import FILE, Maps
from bebold.report import Result
from bebold.runs import read_metrics
from bebold.studies import heatmaps, rooms
from bebold.studies.rooms import Explored
from bebold.sweep import sweep_and_draw
from bebold.tables import Table, write_below

TITLE = "Pure exploration of one MultiRoom-N7-S8"


def run(folder: Path, *, smoke: bool, at_once: int, quiet: bool) -> None:
    """Train the runs that are missing, in `runs` beside `folder`; write tables, figures and records to `folder`.

    Of a smoke test all of it lies in `folder`.

    Parameters
    ----------
    smoke : two runs of seconds, always from the beginning
    at_once : runs side by side; 0: one per core
    quiet : plain lines, for logs

    Raises
    ------
    RunError : runs failed (tables and figures are of the others), or a file cannot be written
    Interrupted : SIGINT or SIGTERM came; every run has saved
    """
    moments = experiment.SMOKE_MOMENTS if smoke else experiment.MOMENTS
    sweep_and_draw(
        experiment.SMOKE if smoke else experiment.RUNS,
        folder,
        partial(draw, moments=moments),
        smoke=smoke,
        levels=0,  # agents that were never paid for the goal are not judged by it
        at_once=at_once,
        quiet=quiet,
    )


def draw(results: Sequence[Result], folder: Path, moments: Sequence[int] = experiment.MOMENTS) -> None:
    """Tables and figures of these runs, which are all on one level.

    Parameters
    ----------
    moments : environment steps of the maps that are shown

    Raises
    ------
    RunError : maps are missing or damaged, or a file cannot be written
    """
    runs = read(results)
    tables = (
        rooms.entropies(runs, moments),
        rooms.entries(runs),
        rooms.races(runs),
        rooms.best_paid(runs, moments),
        costs(results),
    )
    text = f"# {TITLE}\n\nLevel {experiment.LEVEL} of MRN7S8 without extrinsic reward, {len(runs)} runs.\n"
    write_below(text, tables, folder / "tables.md")
    rooms.write_csv(runs, moments, folder / "rooms.csv")
    heatmaps.visits(runs, moments, folder / "visitation.png")
    heatmaps.bonus(runs, moments, folder / "bonus.png")
    heatmaps.density(runs, moments, folder / "density.png")


def read(results: Sequence[Result]) -> list[Explored]:
    """The maps of these runs, by method and seed.

    Raises
    ------
    RunError : maps are missing or damaged
    """
    runs = [Explored(one.config.method, one.config.seed, Maps.load(one.folder / FILE)) for one in results]
    return sorted(runs, key=lambda run: (experiment.METHODS.index(run.method), run.seed))


def costs(results: Sequence[Result]) -> Table:
    """A line a run: how long an update took, and how much of that the counting of visits.

    Medians over updates, so that those after which maps are taken, one in ten, do not enter. Compact records keep no
    seconds: of them it is not known.
    """
    rows = []
    for one in results:
        metrics = read_metrics(one.folder)
        stages = [metrics[key] for key in metrics if key.startswith("time/") and key != "time/elapsed"]
        numbers = ("-", "-", "-")
        if "time/observe" in metrics:
            counting, update = metrics["time/observe"], np.nansum(stages, axis=0)
            share = f"{100 * np.nanmedian(counting / update):.2f} %"
            numbers = (f"{1e3 * np.nanmedian(update):.0f}", f"{1e3 * np.nanmedian(counting):.2f}", share)
        rows.append((one.config.method, f"{one.config.seed}", *numbers))
    return Table(
        "What counting the visits takes",
        "A whole update, the counting in it, in milliseconds, and its share: medians over a run's updates. -: the run "
        "is a compact record, which does not say.",
        ("method", "seed", "update", "counting", "share"),
        rows,
        words=1,
    )
