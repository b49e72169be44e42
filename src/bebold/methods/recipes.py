"""Each published method as one row: which novelty, which difference, which restriction.

The table is plain data: reading it, as the command line's help does, does not load PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bebold.config import IntrinsicConfig
from bebold.errors import UsageError, look_up

if TYPE_CHECKING:
    import torch

    from bebold.methods.intrinsic import IntrinsicReward
    from bebold.methods.novelty import Novelty
    from bebold.optimise import Peers


@dataclass(frozen=True)
class Recipe:
    """One method. `alpha`, the episodic key and RND's settings are numbers of `IntrinsicConfig`."""

    novelty: Literal["rnd", "count", "inverse-root-count", "error", "impact", "one", "zero"]
    difference: Literal["clipped", "unclipped", "none"]
    restriction: Literal["first_visit", "inverse_sqrt", "none"]
    coefficient: float
    """β unless the settings say otherwise: larger where the bonus itself is smaller (docs/research-log.md)."""
    description: str
    """Formula and source, for the command line's help."""


RECIPES: dict[str, Recipe] = {
    "bebold": Recipe(
        "rnd",
        "clipped",
        "first_visit",
        1.0,
        "max(n(o') - alpha n(o), 0) 1{N_e(o') = 1}, n = RND error; BeBold Eq. 3",
    ),
    "rnd": Recipe("rnd", "none", "none", 0.1, "n(o'); Burda et al. 2018"),
    "rnd-episodic": Recipe("rnd", "none", "first_visit", 1.0, "n(o') 1{N_e(o') = 1}; BeBold's ablation, RND + ERIR"),
    "bebold-no-episodic": Recipe(
        "rnd", "clipped", "none", 0.1, "max(n(o') - alpha n(o), 0); BeBold's ablation, without ERIR"
    ),
    "bebold-no-clip": Recipe(
        "rnd",
        "unclipped",
        "first_visit",
        1.0,
        "(n(o') - alpha n(o)) 1{N_e(o') = 1}; BeBold's ablation, without clipping",
    ),
    "bebold-count": Recipe(
        "count", "clipped", "first_visit", 0.1, "max(1/N(s') - alpha/N(s), 0) 1{N_e(s') = 1}; BeBold Eq. 2"
    ),
    "count": Recipe("inverse-root-count", "none", "none", 0.1, "1/sqrt(N(s')); Bellemare et al. 2016, exact counts"),
    "icm": Recipe("error", "none", "none", 0.1, "norm(f(phi(o), a) - phi(o')); ICM, Pathak et al. 2017"),
    "ride": Recipe(
        "impact",
        "none",
        "inverse_sqrt",
        0.1,
        "norm(phi(o') - phi(o)) / sqrt(N_e(o')); RIDE, Raileanu and Rocktäschel 2020",
    ),
    "episodic": Recipe("one", "none", "first_visit", 0.1, "1{N_e(o') = 1}; BeBold's restriction alone, as a control"),
    "none": Recipe("zero", "none", "none", 0.0, "0: the extrinsic reward alone"),
}


def find_recipe(method: str) -> Recipe:
    """The row of this method.

    Raises
    ------
    UsageError : no such method
    """
    return look_up("method", method, RECIPES)


def build_intrinsic(
    method: str,
    config: IntrinsicConfig | None = None,
    *,
    obs_shapes: Mapping[str, tuple[int, ...]],
    num_actions: int = 0,
    device: torch.device | str = "cpu",
    seed: int = 0,
    peers: Peers | None = None,
) -> IntrinsicReward:
    """Build the intrinsic reward of a method in `RECIPES`.

    Parameters
    ----------
    obs_shapes : name and shape of each observation of one environment, for example `{"image": (7, 7, 3)}`
    num_actions : of the environment, for methods that learn what actions do
    seed : of everything random; equal on all workers, so that all build and learn the same
    peers : the workers that learn together

    Raises
    ------
    UsageError : no such method, or the environment does not show what the method needs
    """
    from bebold.methods.icm import ICMNovelty
    from bebold.methods.intrinsic import IntrinsicReward
    from bebold.methods.novelty import ConstantNovelty, CountNovelty
    from bebold.methods.rnd import RNDNovelty

    config = config or IntrinsicConfig()
    recipe = find_recipe(method)

    def rnd() -> Novelty:
        shape = _shape("rnd", config.rnd.encoding, obs_shapes)
        return RNDNovelty(shape, config.rnd, seed=seed, device=device, peers=peers)

    def icm(measures: Literal["error", "impact"]) -> Novelty:
        if num_actions < 1:
            raise UsageError(f"the method {method} learns what actions do: say how many there are with num_actions")
        shape = _shape("icm", config.icm.encoding, obs_shapes)
        return ICMNovelty(shape, num_actions, config.icm, measures=measures, seed=seed, device=device, peers=peers)

    novelties: dict[str, Callable[[], Novelty]] = {
        "rnd": rnd,
        "count": lambda: CountNovelty(capacity=config.count_capacity, peers=peers),
        "inverse-root-count": lambda: CountNovelty(capacity=config.count_capacity, power=0.5, peers=peers),
        "error": lambda: icm("error"),
        "impact": lambda: icm("impact"),
        "one": lambda: ConstantNovelty(1.0),
        "zero": lambda: ConstantNovelty(0.0),
    }
    return IntrinsicReward(
        novelties[recipe.novelty](),
        difference=recipe.difference,
        restriction=recipe.restriction,
        alpha=config.alpha,
    )


def _shape(group: str, encoding: str, obs_shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of the observation that an encoding reads; `group` is of the settings that chose it."""
    name = "vector" if encoding == "raw" else "image"
    if name not in obs_shapes:
        raise UsageError(
            f"{group.upper()} with the encoding '{encoding}' reads '{name}', and the environment shows "
            f"{', '.join(sorted(obs_shapes)) or 'nothing'}: set intrinsic.{group}.encoding to "
            f"{'onehot or codes' if name == 'vector' else 'raw'}"
        )
    return tuple(obs_shapes[name])
