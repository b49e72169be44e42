"""Environments of every kind under one contract.

Each function returns a `gymnasium.vector.VectorEnv` that resets in the step after an end (NEXT_STEP) and
observes a dict of arrays [B, ...]. `info` always holds `elapsed_steps` int64 [B] and, when episodes end,
`episode` with `r` float64 [B] and `l` int64 [B] and the mask `_episode` bool [B]. MiniGrid adds `agent_pos`
int64 [B, 2], and our engine `state_key` uint64 [B].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bebold.gridworld.seeds import Seed
from bebold.gridworld.tasks import Task, UnknownTask, find_task

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

__all__ = ["make_envs", "make_farama_envs"]


def make_envs(
    id: str | Task,
    num_envs: int,
    *,
    seed: Seed = None,
    full_grid: bool = False,
    fixed_seed: int | None = None,
    max_episode_steps: int = 0,
) -> VectorEnv:
    """Make `num_envs` copies of an environment.

    A MiniGrid task (any name that `find_task` knows) runs on our engine; any other id is made by Gymnasium,
    where a `Box` observation becomes `{"vector": ...}`, or `{"image": ...}` if it is uint8 [H, W, C].

    Parameters
    ----------
    id
        A MiniGrid task's name, a `Task`, or the id of a Gymnasium environment.
    seed
        What a first `reset()` without a seed of its own uses, with the meaning that `reset(seed=...)` gives
        it.
    full_grid
        Observe the whole grid too, as `grid` uint8 [B, W, H, 3] (MiniGrid only).
    fixed_seed
        Start every episode of every environment as `reset(seed=fixed_seed)` does.
    max_episode_steps
        Time out after so many steps, if not before; 0: the environment's own limit.
    """
    try:
        task = find_task(id)
    except UnknownTask:
        from bebold.envs.others import is_known, make_other_envs

        if not is_known(str(id)):
            raise
        if full_grid:
            raise ValueError(f"only MiniGrid tasks have a full grid; make {id} without full_grid") from None
        return make_other_envs(str(id), num_envs, seed=seed, fixed_seed=fixed_seed, max_episode_steps=max_episode_steps)
    from bebold.gridworld.vector import MiniGridVectorEnv

    envs = MiniGridVectorEnv(
        task, num_envs, full_grid=full_grid, fixed_seed=fixed_seed, max_episode_steps=max_episode_steps
    )
    if seed is not None:
        envs.seed_generators(seed)
    return envs


def make_farama_envs(
    id: str | Task, num_envs: int, seed: Seed = None, *, full_grid: bool = False, autoreset: bool = True
) -> VectorEnv:
    """Make a MiniGrid task of Farama's own environments: slow, and what every published number is played on.

    Without `autoreset`, an environment that has ended stays as it is until the next `reset` (reward 0, no
    flags).
    """
    from bebold.envs.farama import FaramaVectorEnv

    return FaramaVectorEnv(find_task(id), num_envs, seed, full_grid=full_grid, autoreset=autoreset)
