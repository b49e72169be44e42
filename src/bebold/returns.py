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
