"""From a row of the table to what trains: the intrinsic reward of a method, and its guide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch

from bebold.config import IntrinsicConfig, TrainConfig
from bebold.defaults import filled_in
from bebold.errors import UsageError
from bebold.guide import Guide
from bebold.methods import embedding
from bebold.methods.amigo import GoalNovelty, Teacher
from bebold.methods.icm import ICMNovelty
from bebold.methods.intrinsic import IntrinsicReward
from bebold.methods.novelty import AveragedNovelty, ConstantNovelty, CountNovelty, Novelty
from bebold.methods.recipes import find_recipe
from bebold.methods.rnd import RNDNovelty
from bebold.optimise import Peers
from bebold.seeded import seeded


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
    shape = setting.shape("rnd")
    return RNDNovelty(shape, setting.config.rnd, seed=setting.seed, device=setting.device, peers=setting.peers)


def _averaged_rnd(setting: Setting) -> Novelty:
    return AveragedNovelty(_rnd(setting))


def _icm(measures: Literal["error", "impact"], setting: Setting) -> Novelty:
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
    return CountNovelty(capacity=setting.config.count_capacity, power=power, peers=setting.peers)


def _constant(value: float, setting: Setting) -> Novelty:
    return ConstantNovelty(value)


def _goals(setting: Setting) -> Novelty:
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
    if "grid" not in obs_shapes:
        raise UsageError(
            f"AMIGo's teacher reads 'grid', and the environment shows {', '.join(sorted(obs_shapes)) or 'nothing'}: "
            "make MiniGrid environments with full_grid=True"
        )
    return Teacher(obs_shapes["grid"])


GUIDES: dict[str, Callable[[Mapping[str, tuple[int, ...]]], Guide]] = {"teacher": _teacher}
"""How each guide is built, from name and shape of each observation of one environment."""
