"""Recurrent proximal policy optimisation (Schulman et al. 2017) on the extrinsic reward and β times the bonus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bebold.config import PPOConfig
from bebold.defaults import or_usual
from bebold.networks import Policy
from bebold.optimise import Optimiser, Peers
from bebold.returns import discounts, gae, reward_streams
from bebold.rollout import Rollout


def clipped_surrogate(log_prob: Tensor, behaviour_log_prob: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """min(ρ A, clip(ρ, 1 - ε, 1 + ε) A) with ρ = π / μ (Eq. 7), elementwise."""
    ratio = (log_prob - behaviour_log_prob).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def value_error(error: Tensor, delta: float) -> Tensor:
    """½ e², but δ (|e| - ½ δ) where |e| > δ (Huber 1964), elementwise; ½ e² everywhere if δ is 0."""
    squared = 0.5 * error.square()
    return torch.where(error.abs() > delta, delta * (error.abs() - 0.5 * delta), squared) if delta else squared


class PPO:
    """Several passes over each rollout in minibatches of whole environments, so that the memory can be unrolled.

    Parameters
    ----------
    policy : the actor-critic to train
    coefficient : β, the weight of the bonus
    seed : of the split into minibatches
    """

    def __init__(
        self,
        policy: Policy,
        config: PPOConfig,
        *,
        coefficient: float,
        seed: int = 0,
        peers: Peers | None = None,
    ):
        self.policy = policy
        self.config = config
        self.coefficient = coefficient
        self.first_entropy = self.entropy = or_usual(config.entropy, "ppo.entropy")
        self.huber_delta = or_usual(config.huber_delta, "ppo.huber_delta")
        self.generator = torch.Generator().manual_seed(seed)
        self.optimiser = Optimiser(
            policy.own_parameters(),
            learning_rate=config.learning_rate,
            eps=config.adam_eps,
            max_grad_norm=config.max_grad_norm,
            peers=peers,
        )

    def update(self, rollout: Rollout, bonus: Tensor, *, progress: float = 0.0) -> dict[str, float]:
        """Learn from a rollout and its bonus `[T, B]`; returns the mean losses. `progress`: share of the run behind."""
        if self.config.learning_rate_decay == "linear":
            self.optimiser.scale_learning_rate(1 - progress)
        if self.config.entropy_decay == "linear":
            self.entropy = (1 - progress) * self.first_entropy
        advantage, target = self.advantages(rollout, bonus)
        advantage = self.centred(advantage, rollout.valid)
        minibatches = self.minibatches(rollout.num_envs)
        return self.optimiser.descend(self.loss(rollout, advantage, target, envs) for envs in minibatches)

    def advantages(self, rollout: Rollout, bonus: Tensor) -> tuple[Tensor, Tensor]:
        """Advantage summed over the value heads, `[T, B]`, and each head's target, `[T, B, H]`."""
        config = self.config
        reward = reward_streams(
            config.extrinsic_scale * rollout.reward, self.coefficient * bonus, rollout.value.shape[-1]
        )
        discount = discounts(
            rollout.cut,
            rollout.truncated,
            config.discount,
            bootstrap_timeouts=config.bootstrap_timeouts,
        )
        lambda_ = config.gae_lambda * (~rollout.ended).float()
        advantage = gae(reward, rollout.value, discount[..., None], lambda_[..., None])
        return advantage.sum(dim=-1), advantage + rollout.value[:-1]

    def centred(self, advantage: Tensor, valid: Tensor) -> Tensor:
        """The advantages `[T, B]` less their mean over the valid steps of all workers.

        A constant is a baseline, and adds nothing to the expected gradient. An error that all values share is one.
        Clipped ratios and few samples break the balance: advantages that are negative as a whole drive a settled policy
        back to chance, positive ones settle it too soon. They are not divided by their deviation, which would make much
        of a bonus that has all but gone.
        """
        sums = torch.stack((advantage[valid].sum(), valid.sum()))
        self.optimiser.peers.average_(sums)
        return advantage - sums[0] / sums[1].clamp(min=1.0)

    def minibatches(self, num_envs: int) -> Iterator[Tensor]:
        """Indices of environments, each environment once a pass."""
        for _ in range(self.config.epochs):
            order = torch.randperm(num_envs, generator=self.generator)
            yield from order.chunk(self.config.minibatches)

    def loss(
        self, rollout: Rollout, advantage: Tensor, target: Tensor, envs: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The PPO loss over the valid steps of some environments, and its parts."""
        config = self.config
        envs = envs.to(rollout.action.device)
        obs = {name: x[:-1].index_select(1, envs) for name, x in rollout.obs.items() if name in self.policy.needs}
        starts = rollout.starts[:-1].index_select(1, envs)
        logits, value, _ = self.policy.unroll(obs, rollout.state.index_select(0, envs), starts)
        log_probs = logits.log_softmax(dim=-1)
        action = rollout.action.index_select(1, envs).unsqueeze(-1)
        log_prob = log_probs.gather(-1, action).squeeze(-1)
        behaviour = rollout.log_prob.index_select(1, envs)
        weight = rollout.valid.index_select(1, envs).float()
        weight = weight / weight.sum().clamp(min=1.0)

        surrogate = clipped_surrogate(log_prob, behaviour, advantage.index_select(1, envs), config.clip)
        policy_loss = -(weight * surrogate).sum()
        error = value_error(value - target.index_select(1, envs), self.huber_delta)
        value_loss = (weight * error.sum(dim=-1)).sum()
        entropy = -(weight * (log_probs.exp() * log_probs).sum(dim=-1)).sum()
        loss = policy_loss + config.value_loss * value_loss - self.entropy * entropy
        with torch.no_grad():
            log_ratio = log_prob - behaviour
            divergence = (weight * (log_ratio.exp() - 1 - log_ratio)).sum()
        return loss, {
            "losses/policy": policy_loss.detach(),
            "losses/value": value_loss.detach(),
            "losses/entropy": entropy.detach(),
            "losses/kl": divergence,
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
