"""Farama's own MiniGrid environments behind the contract of our engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from bebold.gridworld.episodes import ended_episodes
from bebold.gridworld.seeds import Seed, seeds_of_envs
from bebold.gridworld.tasks import Task, make_farama


class _Sight:
    """What one environment shows: each view and each full grid that Farama's code makes is kept while the level stays
    as it is.

    Views are most of Farama's time, and agents that fail turn and come back. What is seen follows from the level and
    the agent's place, direction and load. To pick up, to drop and to toggle change the cell in front, and leave the
    agent where it was; no other action changes anything but its place and direction.
    """

    def __init__(self, env: Any, *, restless: bool):
        self.env = env
        self.restless = restless  # things move by themselves
        self._generate = env.gen_obs
        self._pose: tuple[int, ...] = ()
        self._front: Any = None
        self._views: dict[tuple[int, ...], dict[str, Any]] = {}
        self._grids: dict[tuple[int, ...], np.ndarray] = {}
        env.gen_obs = self.view  # what its `reset` and `step` return

    def view(self) -> dict[str, Any]:
        """The environment's observation, as `gen_obs` returns it."""
        env = self.env
        pose = (*map(int, env.agent_pos), int(env.agent_dir))
        thing = env.grid.get(*env.front_pos)
        front = thing and thing.encode()
        changed = pose == self._pose and front != self._front
        if self.restless or changed or not env.step_count:
            self._views.clear()
            self._grids.clear()
        self._pose, self._front = pose, front
        if pose not in self._views:
            self._views[pose] = self._generate()
        return self._views[pose]

    def full_grid(self) -> np.ndarray:
        """The whole grid at the last view, uint8 [W, H, 3]."""
        from bebold.gridworld.lockstep import farama_full_grid

        if self._pose not in self._grids:
            self._grids[self._pose] = farama_full_grid(self.env)
        return self._grids[self._pose]


class FaramaVectorEnv(VectorEnv):
    """`num_envs` of Farama's environments, stepped one after the other.

    Observations and `info` are those of `MiniGridVectorEnv`, but for `state_key`.
    """

    def __init__(
        self,
        task: Task,
        num_envs: int,
        seed: Seed = None,
        *,
        full_grid: bool = False,
        autoreset: bool = True,
    ) -> None:
        self.envs: list[Any] = []  # closed even if the rest fails
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        self.task = task
        self.num_envs = num_envs
        self.full_grid = full_grid
        self.autoreset = autoreset
        self.render_mode = "rgb_array"
        mode = AutoresetMode.NEXT_STEP if autoreset else AutoresetMode.DISABLED
        self.metadata = {"autoreset_mode": mode, "render_modes": ["rgb_array"], "render_fps": 10}
        self.envs = [make_farama(task, render_mode="rgb_array").unwrapped for _ in range(num_envs)]
        self._sights = [_Sight(env, restless=task.family == "dynamic_obstacles") for env in self.envs]
        self.single_action_space = self.envs[0].action_space
        seen = self.envs[0].observation_space
        observed = {name: seen[name] for name in ("image", "direction")}
        if full_grid:
            observed["grid"] = spaces.Box(0, 255, (task.width, task.height, 3), np.uint8)
        self.single_observation_space = spaces.Dict(observed)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._first_seed = seed
        self._image = np.zeros((num_envs, *seen["image"].shape), dtype=np.uint8)
        self._grid = np.zeros((num_envs, task.width, task.height, 3), dtype=np.uint8)
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        self._returns = np.zeros(num_envs, dtype=np.float64)

    def reset(
        self, *, seed: Seed = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start new episodes; seeds and `options["reset_mask"]` as in `MiniGridVectorEnv.reset`."""
        mask = (options or {}).get("reset_mask")
        chosen = range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist()
        seeds = seeds_of_envs(self._first_seed if seed is None else seed, self.num_envs)
        self._first_seed = None
        for i in chosen:
            self._start(i, seeds[i])
        return self._observe()

    def step(self, actions: Any) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play `actions` int [B]; returns as `MiniGridVectorEnv.step`."""
        reward = np.zeros(self.num_envs, dtype=np.float64)
        terminated = np.zeros(self.num_envs, dtype=np.bool_)
        truncated = np.zeros(self.num_envs, dtype=np.bool_)
        for i, (env, action) in enumerate(zip(self.envs, np.asarray(actions).tolist(), strict=True)):
            if not self._ended[i]:
                observation, reward[i], terminated[i], truncated[i], _ = env.step(action)
                self._look(i, observation)
            elif self.autoreset:
                self._start(i, None)
        self._returns += reward
        just_ended = terminated | truncated
        self._ended |= just_ended
        observation, info = self._observe()
        info |= ended_episodes(just_ended, self._returns, info["elapsed_steps"])
        return observation, reward, terminated, truncated, info

    def render(self) -> tuple[Any, ...]:
        """One picture per environment, uint8 [32 H, 32 W, 3]."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    def _start(self, i: int, seed: int | None) -> None:
        self._look(i, self.envs[i].reset(seed=seed)[0])
        self._ended[i] = False
        self._returns[i] = 0.0

    def _look(self, i: int, observation: dict[str, Any]) -> None:
        self._image[i] = observation["image"]
        if self.full_grid:
            self._grid[i] = self._sights[i].full_grid()

    def _observe(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        observation = {
            "image": self._image.copy(),
            "direction": np.array([env.agent_dir for env in self.envs], dtype=np.int64),
        }
        if self.full_grid:
            observation["grid"] = self._grid.copy()
        info = {
            "agent_pos": np.array([env.agent_pos for env in self.envs], dtype=np.int64),
            "elapsed_steps": np.array([env.step_count for env in self.envs], dtype=np.int64),
        }
        return observation, info
