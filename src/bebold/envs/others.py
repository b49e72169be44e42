"""Any other Gymnasium environment, adapted to the one contract."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper

from bebold.gridworld.episodes import ended_episodes
from bebold.gridworld.seeds import Seed


def is_known(id: str) -> bool:
    """Whether Gymnasium can make this id. Importing minigrid registers the tasks our engine does not have."""
    if id.startswith(("MiniGrid-", "BabyAI-")):
        importlib.import_module("minigrid")
    return ":" in id or id in gymnasium.registry


def make_other_envs(
    id: str, num_envs: int, *, seed: Seed = None, fixed_seed: int | None = None, max_episode_steps: int = 0
) -> VectorEnv:
    """`num_envs` copies of a Gymnasium environment, stepped one after the other."""
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, not {num_envs}")
    if max_episode_steps < 0:
        raise ValueError(f"max_episode_steps must not be negative; {max_episode_steps} is")

    def make() -> gymnasium.Env:
        env = gymnasium.make(id)
        if max_episode_steps:
            env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
        return DictObservation(env, fixed_seed)

    envs = SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)
    return EpisodeInfo(envs, seed)


class DictObservation(gymnasium.Wrapper):
    """Observations as a dict of arrays; with `fixed_seed`, every reset is with this seed.

    A `Box` becomes `image` if it is uint8 [H, W, C], else `vector`; of a `Dict`, entries without numbers
    are left out.
    """

    def __init__(self, env: gymnasium.Env, fixed_seed: int | None = None) -> None:
        super().__init__(env)
        self.fixed_seed = fixed_seed
        space = env.observation_space
        self._name = None
        if isinstance(space, spaces.Box):
            self._name = "image" if len(space.shape) == 3 and space.dtype == np.uint8 else "vector"
            space = spaces.Dict({self._name: space})
        if not isinstance(space, spaces.Dict):
            raise ValueError(f"observations of {env.spec and env.spec.id} are {space}; a Box or a Dict is needed")
        numbers = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
        self._entries: dict[str, spaces.Space] = {
            name: entry for name, entry in space.items() if isinstance(entry, numbers)
        }
        self.observation_space = spaces.Dict(self._entries)

    def _observed(self, observation: Any) -> dict[str, Any]:
        if self._name is not None:
            return {self._name: observation}
        return {name: observation[name] for name in self._entries}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Reset, with the fixed seed if there is one."""
        fixed = self.fixed_seed is not None
        observation, info = self.env.reset(seed=self.fixed_seed if fixed else seed, options=options)
        return self._observed(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Step, with the observation as a dict."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._observed(observation), reward, terminated, truncated, info


class EpisodeInfo(VectorWrapper):
    """Adds `elapsed_steps` and, at an end, `episode` to `info`; a first reset takes `first_seed`."""

    def __init__(self, env: VectorEnv, first_seed: Seed = None) -> None:
        super().__init__(env)
        self._first_seed = first_seed
        self._elapsed = np.zeros(self.num_envs, dtype=np.int64)
        self._returns = np.zeros(self.num_envs, dtype=np.float64)
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes; `options["reset_mask"]` bool [B] chooses which."""
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        seed, self._first_seed = (self._first_seed if seed is None else seed), None
        observation, info = self.env.reset(seed=seed, options=None if options is None else dict(options))
        self._start(mask)
        self._ended[mask] = False
        return observation, info | {"elapsed_steps": self._elapsed.copy()}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play `actions`; the step after an end only resets."""
        observation, reward, terminated, truncated, info = self.env.step(actions)
        self._elapsed += 1
        self._returns += reward
        self._start(self._ended)
        self._ended = terminated | truncated
        info["elapsed_steps"] = self._elapsed.copy()
        info |= ended_episodes(self._ended, self._returns, self._elapsed)
        return observation, reward, terminated, truncated, info

    def _start(self, mask: np.ndarray) -> None:
        self._elapsed[mask] = 0
        self._returns[mask] = 0.0
