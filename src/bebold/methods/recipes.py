"""Each published method as one row: which novelty, which difference, which restriction.

The table is plain data: settings are checked against it, and methods listed, without PyTorch. `build.py` builds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from bebold.errors import look_up

Group = Literal["rnd", "icm", "amigo"]
"""Groups of `IntrinsicConfig`, each read by some novelties alone."""


@dataclass(frozen=True)
class Recipe:
    """One method. `alpha`, the episodic key and RND's settings are numbers of `IntrinsicConfig`."""

    novelty: str
    """One of `build.NOVELTIES`."""
    difference: Literal["clipped", "unclipped", "none"]
    restriction: Literal["first_visit", "inverse_sqrt", "none"]
    coefficient: float
    """β unless the settings say otherwise: larger where the bonus itself is smaller (docs/research-log.md)."""
    formula: str
    """What is paid for a step from o to o', for `bebold methods`."""
    source: str
    """Where it comes from."""
    guide: str | None = None
    """What adds observations for it, one of `build.GUIDES`; None: nothing does."""
    reads: Group | None = None
    """The group of settings that its novelty reads, if any."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """What other settings that are left open become: see `bebold.defaults`."""


RECIPES: dict[str, Recipe] = {
    "bebold": Recipe(
        "rnd",
        "clipped",
        "first_visit",
        1.0,
        "max(n(o') - alpha n(o), 0) 1{N_e(o') = 1}, n: RND's error",
        "BeBold, Eq. 3; NovelD",
        reads="rnd",
    ),
    "rnd": Recipe("rnd", "none", "none", 0.1, "n(o'), n: RND's error", "Burda et al. 2018", reads="rnd"),
    "rnd-episodic": Recipe(
        "rnd",
        "none",
        "first_visit",
        1.0,
        "n(o') 1{N_e(o') = 1}, n: RND's error",
        "BeBold's ablation, RND + ERIR",
        reads="rnd",
    ),
    "bebold-no-episodic": Recipe(
        "rnd",
        "clipped",
        "none",
        0.1,
        "max(n(o') - alpha n(o), 0), n: RND's error",
        "BeBold's ablation, without ERIR",
        reads="rnd",
    ),
    "bebold-no-clip": Recipe(
        "rnd",
        "unclipped",
        "first_visit",
        1.0,
        "(n(o') - alpha n(o)) 1{N_e(o') = 1}, n: RND's error",
        "BeBold's ablation, without clipping",
        reads="rnd",
    ),
    "bebold-averaged": Recipe(
        "averaged-rnd",
        "clipped",
        "first_visit",
        1.0,
        "max(m(o') - alpha m(o), 0) 1{N_e(o') = 1}, m: mean RND error of a rollout's observations with o's key",
        "ours, against noise",
        reads="rnd",
    ),
    "bebold-count": Recipe(
        "inverse-count",
        "clipped",
        "first_visit",
        0.1,
        "max(1/N(s') - alpha/N(s), 0) 1{N_e(s') = 1}",
        "BeBold, Eq. 2",
    ),
    "count": Recipe("inverse-root-count", "none", "none", 1.0, "1/sqrt(N(s'))", "Bellemare et al. 2016, exact counts"),
    "icm": Recipe(
        "error",
        "none",
        "none",
        0.01,
        "norm(f(phi(o), a) - phi(o')), phi and f learnt",
        "Pathak et al. 2017",
        reads="icm",
        defaults={"intrinsic.icm.epochs": 4},
    ),
    "ride": Recipe(
        "impact",
        "none",
        "inverse_sqrt",
        0.01,
        "norm(phi(o') - phi(o)) / sqrt(N_e(o')), phi: ICM's",
        "Raileanu and Rocktäschel 2020",
        reads="icm",
    ),
    "episodic": Recipe("one", "none", "first_visit", 0.3, "1{N_e(o') = 1}", "BeBold's restriction alone, a control"),
    "amigo": Recipe(
        "goals",
        "none",
        "none",
        0.3,
        "1 - 0.9 t/T when the cell changes that a teacher chose t steps before; more for solving the task",
        "Campero et al. 2021",
        guide="teacher",
        reads="amigo",
        defaults={"network.architecture": "amigo", "staggered": True},
    ),
    "none": Recipe("zero", "none", "none", 0.0, "0", "the extrinsic reward alone"),
}


def find_recipe(method: str) -> Recipe:
    """The row of this method.

    Raises
    ------
    UsageError : no such method
    """
    return look_up("method", method, RECIPES)
