"""The actor-critics by name."""

from __future__ import annotations

from bebold.goal_networks import GoalActorCritic
from bebold.networks import ActorCritic, Policy
from bebold.published_networks import ConvLSTM

ARCHITECTURES: dict[str, type[Policy]] = {
    "mlp-gru": ActorCritic,
    "amigo": GoalActorCritic,
    "bebold": ConvLSTM,
    "ride": ConvLSTM,
}
"""The choices of `NetworkConfig.architecture`."""
