"""IMPALA's learner (Espeholt et al. 2018): an actor-critic whose V-trace values allow for older acting weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bebold.config import IMPALAConfig
from bebold.networks import Policy
from bebold.optimise import Optimiser, Peers
from bebold.returns import discounts, reward_streams, vtrace
from bebold.rollout import Rollout


class IMPALA:
    """Steps of RMSProp, on losses that are summed over time and averaged over environments.

    Each step sees its own share of the environments, once: by the last of them the policy is some steps ahead of the
    one that acted, which V-trace corrects.

    Parameters
    ----------
    policy : the actor-critic to train
    coefficient : β, the weight of the bonus
    """

    def __init__(self, policy: Policy, config: IMPALAConfig, *, coefficient: float, peers: Peers | None = None):
        self.policy = policy
        self.config = config
        self.coefficient = coefficient
        self.optimiser = Optimiser(
            policy.own_parameters(),
            learning_rate=config.learning_rate,
            algorithm="rmsprop",
            eps=config.rms_eps,
            rms_decay=config.rms_decay,
            max_grad_norm=config.max_grad_norm,
            peers=peers,
        )

    def update(self, rollout: Rollout, bonus: Tensor, *, progress: float = 0.0) -> dict[str, float]:
        """Learn from a rollout and its bonus `[T, B]`; returns the mean losses. `progress`: share of the run behind."""
        if self.config.learning_rate_decay == "linear":
            self.optimiser.scale_learning_rate(1 - progress)
        reward = self.reward(rollout, bonus)
        shares = torch.arange(rollout.num_envs, device=bonus.device).chunk(self.config.minibatches)
        return self.optimiser.descend(
            self.loss(rollout.of_envs(envs, self.policy.needs), reward.index_select(1, envs)) for envs in shares
        )

    def reward(self, rollout: Rollout, bonus: Tensor) -> Tensor:
        """What is learnt from, `[T, B, H]`: r_e + β r_i, clamped."""
        config = self.config
        heads = rollout.value.shape[-1]
        reward = reward_streams(config.extrinsic_scale * rollout.reward, self.coefficient * bonus, heads)
        return reward.clamp(-config.reward_clip, config.reward_clip) if config.reward_clip else reward

    def loss(self, rollout: Rollout, reward: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss over the valid steps (Espeholt et al. 2018, Section 4.2), and its parts."""
        config = self.config
        obs = {name: x for name, x in rollout.obs.items() if name in self.policy.needs}
        logits, value, _ = self.policy.unroll(obs, rollout.state, rollout.starts)
        log_probs = logits[:-1].log_softmax(dim=-1)
        log_prob = log_probs.gather(-1, rollout.action.unsqueeze(-1)).squeeze(-1)
        log_ratio = (log_prob - rollout.log_prob).detach()
        discount = discounts(
            rollout.cut,
            rollout.truncated,
            config.discount,
            bootstrap_timeouts=config.bootstrap_timeouts,
        )
        target, advantage = vtrace(
            log_ratio.unsqueeze(-1),
            reward,
            value.detach(),
            discount.unsqueeze(-1),
            (~rollout.ended).float().unsqueeze(-1),
            rho_clip=config.rho_clip,
            c_clip=config.c_clip,
        )
        weight = rollout.valid.float() / rollout.num_envs
        policy_loss = -(weight * log_prob * advantage.sum(dim=-1)).sum()
        value_loss = 0.5 * (weight * (target - value[:-1]).square().sum(dim=-1)).sum()
        entropy = -(weight * (log_probs.exp() * log_probs).sum(dim=-1)).sum()
        loss = policy_loss + config.value_loss * value_loss - config.entropy * entropy
        with torch.no_grad():
            steps = weight.sum().clamp(min=1.0 / rollout.num_envs)
            divergence = (weight * (log_ratio.exp() - 1 - log_ratio)).sum()
            # Sums over time, as they are descended, would grow with the unroll: means are logged.
            parts = {"policy": policy_loss, "value": value_loss, "entropy": entropy, "kl": divergence}
            return loss, {f"losses/{name}": part.detach() / steps for name, part in parts.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"policy": self.policy.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.policy.load_state_dict(state["policy"])
        self.optimiser.load_state_dict(state["optimiser"])
