"""Pure exploration of one level: where BeBold and RND go, and what they are paid there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bebold import record, report
from bebold.config import TrainConfig
from bebold.errors import RunError
from bebold.experiments import visitation as experiment
from bebold.maps import FILE, Maps
from bebold.runs import read_metrics, run_folder
from bebold.studies import heatmaps, rooms
from bebold.studies.rooms import Explored
from bebold.sweep import is_done, sweep
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
    root = (folder if smoke else folder.parent) / "runs"
    if smoke:
        shutil.rmtree(root, ignore_errors=True)
    configs = experiment.SMOKE if smoke else experiment.RUNS
    moments = experiment.SMOKE_MOMENTS if smoke else experiment.MOMENTS
    # No verdicts: agents that were never paid for the goal are not judged by it.
    failure = None
    try:
        sweep(configs, root, at_once=at_once, levels=0, quiet=quiet)
    except RunError as error:
        failure = error
    done = [config for config in configs if is_done(config, root, levels=0)]
    folders = [run_folder(config, root) for config in done]
    if done:
        write(read(folders, done), moments, folder, costs(folders, done))
        record.record([report.read_result(run) for run in folders], folder / "records")
    if failure is not None:
        raise failure


def read(folders: Sequence[Path], configs: Sequence[TrainConfig]) -> list[Explored]:
    """The maps in these run folders, by method and seed.

    Raises
    ------
    RunError : maps are missing or damaged
    """
    runs = [Explored(c.method, c.seed, Maps.load(f / FILE)) for f, c in zip(folders, configs, strict=True)]
    return sorted(runs, key=lambda run: (experiment.METHODS.index(run.method), run.seed))


def costs(folders: Sequence[Path], configs: Sequence[TrainConfig]) -> Table:
    """A line a run: how long an update took, and how much of that the counting of visits.

    Medians over updates, so that those after which maps are taken, one in ten, do not enter. Compact records keep no
    seconds: of them it is not known.
    """
    rows = []
    for folder, config in zip(folders, configs, strict=True):
        metrics = read_metrics(folder)
        stages = [metrics[key] for key in metrics if key.startswith("time/") and key != "time/elapsed"]
        numbers = ("-", "-", "-")
        if "time/observe" in metrics:
            counting, update = metrics["time/observe"], np.nansum(stages, axis=0)
            share = f"{100 * np.nanmedian(counting / update):.2f} %"
            numbers = (f"{1e3 * np.nanmedian(update):.0f}", f"{1e3 * np.nanmedian(counting):.2f}", share)
        rows.append((config.method, f"{config.seed}", *numbers))
    return Table(
        "What counting the visits takes",
        "A whole update, the counting in it, in milliseconds, and its share: medians over a run's updates. -: the run "
        "is a compact record, which does not say.",
        ("method", "seed", "update", "counting", "share"),
        rows,
        words=1,
    )


def write(runs: Sequence[Explored], moments: Sequence[int], folder: Path, *more: Table) -> None:
    """Tables and figures of these runs, which are all on one level; `more` tables below their own.

    Raises
    ------
    RunError : they cannot be written
    """
    tables = (
        rooms.entropies(runs, moments),
        rooms.entries(runs),
        rooms.races(runs),
        rooms.best_paid(runs, moments),
        *more,
    )
    text = f"# {TITLE}\n\nLevel {experiment.LEVEL} of MRN7S8 without extrinsic reward, {len(runs)} runs.\n"
    write_below(text, tables, folder / "tables.md")
    rooms.write_csv(runs, moments, folder / "rooms.csv")
    heatmaps.visits(runs, moments, folder / "visitation.png")
    heatmaps.bonus(runs, moments, folder / "bonus.png")
    heatmaps.density(runs, moments, folder / "density.png")
