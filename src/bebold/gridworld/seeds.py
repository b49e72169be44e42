"""What `reset(seed=...)` means for several environments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Seed = int | Sequence[int | None] | None


def seeds_of_envs(seed: Seed, num_envs: int) -> list[int | None]:
    """One seed for each environment: `seed + i` of an integer, else the given ones; `None` goes on."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        seeds: list[int | None] = [int(seed) + i for i in range(num_envs)]
    else:
        seeds = [None if one is None else int(one) for one in seed]
    if len(seeds) != num_envs:
        raise ValueError(f"reset got {len(seeds)} seeds for {num_envs} environments")
    if any(one is not None and one < 0 for one in seeds):
        raise ValueError("seeds must not be negative")
    return seeds
