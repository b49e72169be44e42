"""Rollouts made by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bebold.rollout import Rollout


def make_rollout(
    *,
    starts: Tensor | None = None,
    counts: Tensor | None = None,
    successor_valid: Tensor | None = None,
    **obs: Tensor,
) -> Rollout:
    """A rollout of which only what an intrinsic reward reads is filled in; the rest is zero."""
    given = next(x for x in (starts, counts, *obs.values()) if x is not None)
    steps, num_envs = given.shape[0] - 1, given.shape[1]
    zero = torch.zeros(steps, num_envs)
    return Rollout(
        obs=obs,
        action=zero.long(),
        reward=zero,
        terminated=zero.bool(),
        truncated=zero.bool(),
        starts=torch.zeros(steps + 1, num_envs, dtype=torch.bool) if starts is None else starts,
        episodic_count=torch.ones(steps + 1, num_envs, dtype=torch.int32) if counts is None else counts,
        log_prob=zero,
        value=torch.zeros(steps + 1, num_envs, 1),
        state=torch.zeros(num_envs, 1),
        successor_valid=successor_valid,
    )


def make_views(seed: int, steps: int = 8, num_envs: int = 6, kinds: int = 12) -> Tensor:
    """Random views, uint8 `[T + 1, B, 7, 7, 3]`, of which `kinds` are distinct."""
    generator = torch.Generator().manual_seed(seed)
    limits = torch.tensor([11, 6, 3])
    views = (torch.rand(kinds, 7, 7, 3, generator=generator) * limits).to(torch.uint8)
    return views[torch.randint(kinds, (steps + 1, num_envs), generator=generator)]


@pytest.fixture
def rollout_of():
    return make_rollout


@pytest.fixture
def views_of():
    return make_views


@pytest.fixture
def view_rollout():
    """Random views, starts and episodic counts; a fifth of the steps only reset."""

    def make(seed: int, **sizes: int) -> Rollout:
        views = make_views(seed, **sizes)
        generator = torch.Generator().manual_seed(seed + 1000)
        starts = torch.rand(views.shape[:2], generator=generator) < 0.2
        counts = torch.randint(1, 3, views.shape[:2], generator=generator, dtype=torch.int32)
        return make_rollout(image=views, starts=starts, counts=counts)

    return make
