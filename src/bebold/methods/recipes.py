"""Each published method as one row: which novelty, which difference, which restriction.

The table is plain data: reading it, as the command line's help does, does not load PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from bebold.config import IntrinsicConfig, TrainConfig
from bebold.defaults import filled_in
from bebold.errors import UsageError, look_up

if TYPE_CHECKING:
    import torch

    from bebold.guide import Guide
    from bebold.methods.intrinsic import IntrinsicReward
    from bebold.methods.novelty import Novelty
    from bebold.optimise import Peers

Group = Literal["rnd", "icm", "amigo"]
"""Groups of `IntrinsicConfig`, each read by some novelties alone."""


@dataclass(frozen=True)
class Recipe:
    """One method. `alpha`, the episodic key and RND's settings are numbers of `IntrinsicConfig`."""

    novelty: str
    """One of `NOVELTIES`."""
    difference: Literal["clipped", "unclipped", "none"]
    restriction: Literal["first_visit", "inverse_sqrt", "none"]
    coefficient: float
    """β unless the settings say otherwise: larger where the bonus itself is smaller (docs/research-log.md)."""
    formula: str
    """What is paid for a step from o to o', for `bebold methods`."""
    source: str
    """Where it comes from."""
    guide: str | None = None
    """What adds observations for it, one of `GUIDES`; None: nothing does."""
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


def build_guide(method: str, *, obs_shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> Guide | None:
    """What adds observations for this method: AMIGo's teacher; for all other methods None.

    Parameters
    ----------
    obs_shapes : name and shape of each observation of one environment
    seed : of its weights; the global random state is neither read nor changed

    Raises
    ------
    UsageError : no such method, or the environment does not show what the guide needs
    """
    from bebold.seeded import seeded

    guide = find_recipe(method).guide
    if guide is None:
        return None
    with seeded(seed):
        return GUIDES[guide](obs_shapes)


def build_intrinsic(
    method: str,
    config: IntrinsicConfig | None = None,
    *,
    obs_shapes: Mapping[str, tuple[int, ...]],
    num_actions: int = 0,
    max_steps: int | None = None,
    guide: Guide | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    peers: Peers | None = None,
) -> IntrinsicReward:
    """Build the intrinsic reward of a method in `RECIPES`.

    Parameters
    ----------
    obs_shapes : name and shape of each observation of one environment, for example `{"image": (7, 7, 3)}`
    num_actions : of the environment, for methods that learn what actions do
    max_steps : the task's time limit, for methods that count the time (`amigo`)
    guide : the policy's own, so that what learns here is what acts there; None makes one of `build_guide`
    seed : of everything random; equal on all workers, so that all build and learn the same
    peers : the workers that learn together

    Raises
    ------
    UsageError : no such method, or the environment does not show what the method needs
    """
    from bebold.methods.intrinsic import IntrinsicReward

    recipe = find_recipe(method)
    config = filled_in(TrainConfig(intrinsic=config or IntrinsicConfig()), recipe.defaults).intrinsic
    guide = guide or build_guide(method, obs_shapes=obs_shapes, seed=seed)
    setting = Setting(config, obs_shapes, num_actions, max_steps, guide, device, seed, peers)
    return IntrinsicReward(
        NOVELTIES[recipe.novelty](setting),
        difference=recipe.difference,
        restriction=recipe.restriction,
        alpha=config.alpha,
    )


@dataclass(frozen=True)
class Setting:
    """What a novelty is built from: see `build_intrinsic`."""

    config: IntrinsicConfig
    obs_shapes: Mapping[str, tuple[int, ...]]
    num_actions: int
    max_steps: int | None
    guide: Guide | None
    device: torch.device | str
    seed: int
    peers: Peers | None

    def shape(self, group: Literal["rnd", "icm"]) -> tuple[int, ...]:
        """Of the observation that this group's encoding reads.

        Raises
        ------
        UsageError : the environment does not show it
        """
        from bebold.methods import embedding

        encoding = getattr(self.config, group).encoding
        name = embedding.source(encoding)
        if name not in self.obs_shapes:
            raise UsageError(
                f"{group.upper()} with the encoding '{encoding}' reads '{name}', and the environment shows "
                f"{', '.join(sorted(self.obs_shapes)) or 'nothing'}: set intrinsic.{group}.encoding to "
                f"{'onehot or codes' if name == 'vector' else 'raw'}"
            )
        return tuple(self.obs_shapes[name])


def _rnd(setting: Setting) -> Novelty:
    from bebold.methods.rnd import RNDNovelty

    shape = setting.shape("rnd")
    return RNDNovelty(shape, setting.config.rnd, seed=setting.seed, device=setting.device, peers=setting.peers)


def _averaged_rnd(setting: Setting) -> Novelty:
    from bebold.methods.novelty import AveragedNovelty

    return AveragedNovelty(_rnd(setting))


def _icm(measures: Literal["error", "impact"], setting: Setting) -> Novelty:
    from bebold.methods.icm import ICMNovelty

    if setting.num_actions < 1:
        raise UsageError("ICM and RIDE learn what actions do: say how many there are with num_actions")
    return ICMNovelty(
        setting.shape("icm"),
        setting.num_actions,
        setting.config.icm,
        measures=measures,
        seed=setting.seed,
        device=setting.device,
        peers=setting.peers,
    )


def _count(power: float, setting: Setting) -> Novelty:
    from bebold.methods.novelty import CountNovelty

    return CountNovelty(capacity=setting.config.count_capacity, power=power, peers=setting.peers)


def _constant(value: float, setting: Setting) -> Novelty:
    from bebold.methods.novelty import ConstantNovelty

    return ConstantNovelty(value)


def _goals(setting: Setting) -> Novelty:
    from bebold.methods.amigo import GoalNovelty, Teacher

    if setting.max_steps is None:
        raise UsageError("AMIGo counts the time that is left: give max_steps, the task's time limit")
    assert isinstance(setting.guide, Teacher)
    return GoalNovelty(
        setting.guide.to(setting.device), setting.config.amigo, max_steps=setting.max_steps, peers=setting.peers
    )


NOVELTIES: dict[str, Callable[[Setting], Novelty]] = {
    "rnd": _rnd,
    "averaged-rnd": _averaged_rnd,
    "error": partial(_icm, "error"),
    "impact": partial(_icm, "impact"),
    "goals": _goals,
    "inverse-count": partial(_count, 1.0),
    "inverse-root-count": partial(_count, 0.5),
    "one": partial(_constant, 1.0),
    "zero": partial(_constant, 0.0),
}
"""How each novelty is built."""


def _teacher(obs_shapes: Mapping[str, tuple[int, ...]]) -> Guide:
    from bebold.methods.amigo import Teacher

    if "grid" not in obs_shapes:
        raise UsageError(
            f"AMIGo's teacher reads 'grid', and the environment shows {', '.join(sorted(obs_shapes)) or 'nothing'}: "
            "make MiniGrid environments with full_grid=True"
        )
    return Teacher(obs_shapes["grid"])


GUIDES: dict[str, Callable[[Mapping[str, tuple[int, ...]]], Guide]] = {"teacher": _teacher}
"""How each guide is built, from name and shape of each observation of one environment."""
