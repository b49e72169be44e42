"""Studies of the paper that are more than a table of returns: each trains, measures and draws in its own way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bebold.studies import corridor_study, noise, two_corridors, visitation


@dataclass(frozen=True)
class Study:
    """One analysis of the paper."""

    name: str
    title: str
    run: Callable[..., None]
    """`run(folder, *, smoke, at_once, quiet)` trains what is missing and writes tables and figures to `folder`."""


STUDIES = {
    study.name: study
    for study in (
        Study("visitation", visitation.TITLE, visitation.run),
        Study("corridor", corridor_study.TITLE, corridor_study.run),
        Study("two-corridors", two_corridors.TITLE, two_corridors.run),
        Study("noise", noise.TITLE, noise.run),
    )
}
"""What `bebold reproduce` knows beside the experiments."""
