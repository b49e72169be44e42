"""Advantages as pure functions of time-major tensors; ends and time-outs are only different inputs."""

from __future__ import annotations

import torch
from torch import Tensor


def discounts(terminated: Tensor, truncated: Tensor, discount: float, *, bootstrap_timeouts: bool) -> Tensor:
    """γ where the next value counts, 0 where the future is cut: float32, the shape of `terminated`.

    A time-out leaves the next value standing if `bootstrap_timeouts`; termination never does.
    """
    cut = terminated if bootstrap_timeouts else terminated | truncated
    return discount * (~cut).float()


def reward_streams(extrinsic: Tensor, intrinsic: Tensor, value_heads: int) -> Tensor:
    """What each value head foresees, `[T, B, H]`: both rewards `[T, B]` summed, or with two heads each by itself."""
    both = torch.stack((extrinsic, intrinsic), dim=-1)
    return both if value_heads == 2 else both.sum(dim=-1, keepdim=True)


def gae(reward: Tensor, value: Tensor, discount: Tensor, lambda_: Tensor) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016, Eq. 16).

    δ_t = r_t + γ_t V(o_{t+1}) - V(o_t);  A_t = δ_t + γ_t λ_t A_{t+1}

    Parameters
    ----------
    reward : `[T, ...]`
    value : `[T + 1, ...]`
    discount : `[T, ...]`, 0 where the future is cut
    lambda_ : `[T, ...]`, 0 at any end of an episode: what follows belongs to another one

    Returns
    -------
    advantage : `[T, ...]`
    """
    delta = reward + discount * value[1:] - value[:-1]
    decay = discount * lambda_
    advantage = torch.empty_like(delta)
    following = torch.zeros_like(delta[0])
    for t in reversed(range(len(delta))):
        following = delta[t] + decay[t] * following
        advantage[t] = following
    return advantage


def vtrace(
    log_ratio: Tensor,
    reward: Tensor,
    value: Tensor,
    discount: Tensor,
    lambda_: Tensor,
    *,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """V-trace (Espeholt et al. 2018, Eq. 1 and Section 4.2): values of the policy π from the experience of μ.

    ρ_t = min(ρ̄, π/μ),  c_t = min(c̄, π/μ);  δ_t = ρ_t (r_t + γ_t V(o_{t+1}) - V(o_t))
    v_t = V(o_t) + δ_t + γ_t λ_t c_t (v_{t+1} - V(o_{t+1}));  A_t = ρ_t (r_t + γ_t v_{t+1} - V(o_t))

    Parameters
    ----------
    log_ratio : log π - log μ of the action taken, `[T, ...]`
    reward : `[T, ...]`
    value : `[T + 1, ...]`, of the policy that learns
    discount : `[T, ...]`, 0 where the future is cut
    lambda_ : `[T, ...]`, 0 at any end of an episode: there v_{t+1} is V(o_{t+1}), what follows is another one's

    Returns
    -------
    target : v, `[T, ...]`
    advantage : A, `[T, ...]`
    """
    ratio = log_ratio.exp()
    rho, c = ratio.clamp(max=rho_clip), lambda_ * ratio.clamp(max=c_clip)
    delta = rho * (reward + discount * value[1:] - value[:-1])
    correction = torch.empty_like(delta)
    following = torch.zeros_like(delta[0])
    for t in reversed(range(len(delta))):
        following = delta[t] + discount[t] * c[t] * following
        correction[t] = following
    target = value[:-1] + correction
    ahead = torch.cat((correction[1:], torch.zeros_like(correction[:1])))
    next_target = value[1:] + (lambda_ > 0) * ahead
    return target, rho * (reward + discount * next_target - value[:-1])
