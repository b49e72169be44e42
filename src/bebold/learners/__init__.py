"""Learners: from a rollout and a bonus to a better policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from bebold.config import TrainConfig
    from bebold.networks import Policy
    from bebold.optimise import Peers
    from bebold.rollout import Rollout


class Learner(Protocol):
    """What the training loop asks of a learner. It never learns which method made the bonus."""

    def update(self, rollout: Rollout, bonus: Tensor, *, progress: float) -> dict[str, float]:
        """Learn from a rollout and its bonus, float32 `[T, B]`; returns `losses/*`.

        `progress`, in [0, 1): the share of the run that is behind, for what changes with it.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """All there is to save, the policy included; tensors and primitives only."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state."""
        ...


def build_learner(config: TrainConfig, policy: Policy, *, seed: int, peers: Peers) -> Learner:
    """The learner that the settings name. `seed` is equal on all workers, so that all learn the same.

    `config` is resolved: its coefficient β, and PPO's entropy coefficient and `huber_delta`, are numbers.
    """
    from bebold.learners.impala import IMPALA
    from bebold.learners.ppo import PPO

    coefficient = config.intrinsic.coefficient
    assert coefficient is not None and None not in (config.ppo.entropy, config.ppo.huber_delta), "see settings.resolve"
    if config.learner == "impala":
        return IMPALA(policy, config.impala, coefficient=coefficient, peers=peers)
    return PPO(policy, config.ppo, coefficient=coefficient, seed=seed, peers=peers)
