"""The actor-critics by name."""

from __future__ import annotations

from bebold.goal_networks import GoalActorCritic
from bebold.networks import ActorCritic, Policy

ARCHITECTURES: dict[str, type[Policy]] = {"mlp-gru": ActorCritic, "amigo": GoalActorCritic}
"""The choices of `NetworkConfig.architecture`."""
