"""Studies of the paper that are more than a table of returns: each trains, measures and draws in its own way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bebold.config import TrainConfig
from bebold.experiments import visitation as exploration
from bebold.report import Result
from bebold.studies import corridor_study, noise, two_corridors, visitation


@dataclass(frozen=True)
class Study:
    """One analysis of the paper."""

    name: str
    title: str
    run: Callable[..., None]
    """`run(folder, *, smoke, at_once, quiet)` trains what is missing and writes tables and figures to `folder`."""
    runs: tuple[TrainConfig, ...] = ()
    """Of which it keeps compact records, where it does; they are trained but not judged."""
    draw: Callable[[Sequence[Result], Path], None] | None = None
    """`draw(results, folder)` writes tables and figures of those of `runs` that there are."""


STUDIES = {
    study.name: study
    for study in (
        Study("visitation", visitation.TITLE, visitation.run, exploration.RUNS, visitation.draw),
        Study("corridor", corridor_study.TITLE, corridor_study.run),
        Study("two-corridors", two_corridors.TITLE, two_corridors.run),
        Study("noise", noise.TITLE, noise.run),
    )
}
"""What `bebold reproduce` knows beside the experiments."""
