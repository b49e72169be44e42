"""MiniGrid as one Gymnasium vector environment, equal to Farama's step for step and seed for seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from bebold.gridworld import kernels
from bebold.gridworld.cells import VIEW
from bebold.gridworld.episodes import ended_episodes
from bebold.gridworld.levels import level_module
from bebold.gridworld.random import seeded_generator
from bebold.gridworld.seeds import Seed, seeds_of_envs
from bebold.gridworld.state import State
from bebold.gridworld.tasks import Task, find_task

Observation = dict[str, np.ndarray]
Info = dict[str, Any]


class MiniGridVectorEnv(VectorEnv):
    """`num_envs` copies of one MiniGrid task.

    Observations are a dict of `image` uint8 [B, 7, 7, 3], `direction` int64 [B] and, with `full_grid`, `grid`
    uint8 [B, W, H, 3]. `info` holds `agent_pos` int64 [B, 2], `elapsed_steps` int64 [B], `state_key` uint64
    [B] (a hash of the full state without the time) and, when episodes end, `episode` with `r` and `l` and the
    mask `_episode`. After an end, the next step only resets (its action is ignored, its reward 0).

    Parameters
    ----------
    task
        A Farama id, one of the paper's short names, or a `Task`.
    full_grid
        Also observe the whole grid.
    fixed_seed
        Play one level for ever: every episode of every environment starts as after `reset(seed=fixed_seed)`.
    max_episode_steps
        Time out after so many steps, if not before; 0: the task's own limit. Rewards are as without.
    render_mode
        `None` or `"rgb_array"`.
    """

    def __init__(
        self,
        task: str | Task,
        num_envs: int = 1,
        *,
        full_grid: bool = False,
        fixed_seed: int | None = None,
        max_episode_steps: int = 0,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        if max_episode_steps < 0:
            raise ValueError(f"max_episode_steps must not be negative; {max_episode_steps} is")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f'render_mode must be None or "rgb_array", not {render_mode!r}.')
        self.task = find_task(task)
        self.num_envs = num_envs
        self.full_grid = full_grid
        self.fixed_seed = fixed_seed
        self.render_mode = render_mode
        self.metadata = {
            "autoreset_mode": AutoresetMode.NEXT_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": 10,
        }
        self._make_spaces()

        levels = level_module(self.task.family)
        self._generate = levels.generate
        self._before_step = getattr(levels, "before_step", None)
        self._parameters = np.array([number for _, number in self.task.parameters], dtype=np.int64)
        self._doors_in_order = self.task.family == "red_blue_doors"
        limit = self.task.max_steps
        self.max_episode_steps = self.task.limit(max_episode_steps)
        self._reward_at = np.array([1 - 0.9 * (step / limit) for step in range(limit + 1)])
        self._fixed_generator = None if fixed_seed is None else seeded_generator(fixed_seed)
        self._state = State.empty(self.task, num_envs)
        self._renderer: Any = None
        self._compile()

    def _make_spaces(self) -> None:
        def image(width: int, height: int) -> spaces.Box:
            return spaces.Box(0, 255, (width, height, 3), np.uint8)

        observed: dict[str, spaces.Space] = {"image": image(VIEW, VIEW), "direction": spaces.Discrete(4)}
        if self.full_grid:
            observed["grid"] = image(self.task.width, self.task.height)
        self.single_observation_space = spaces.Dict(observed)
        self.single_action_space = spaces.Discrete(self.task.num_actions)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def _compile(self) -> None:
        """Compile or load every kernel by playing nothing in no environment."""
        nobody = np.zeros(self.num_envs, dtype=np.bool_)
        self._start_levels(nobody)
        everybody = ~nobody
        outputs = (np.empty(self.num_envs), np.empty_like(nobody), np.empty_like(nobody))
        actions = np.zeros(self.num_envs, dtype=np.int64)
        kernels.first_invalid_action(actions, everybody)
        self._play(actions, everybody, outputs)
        self.observe()

    def reset(self, *, seed: Seed = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Start new episodes.

        An integer seed gives environment i the stream of `seed + i`; without one, each stream goes on (the
        first time it starts from fresh entropy). `options["reset_mask"]` bool [B] resets some environments
        only; `options["elapsed"]` int [B] has the new episodes begin as if so many steps had been taken, and so time
        out sooner. With `fixed_seed` there is one level only and seeds change nothing.
        """
        mask = self._reset_mask(options)
        elapsed = self._elapsed(options)
        for i, one in enumerate(seeds_of_envs(seed, self.num_envs)):
            if mask[i] and (one is not None or not self._state.seeded[i]):
                self._state.generators[i] = seeded_generator(one)
        self._state.seeded |= mask
        self._start_levels(mask)
        self._state.elapsed[mask] = elapsed[mask]
        self._state.ended &= ~mask
        self._state.started[:] = True
        return self.observe()

    def _reset_mask(self, options: dict[str, Any] | None) -> np.ndarray:
        if not options or options.get("reset_mask") is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        mask = np.asarray(options["reset_mask"])
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise ValueError(
                f"reset_mask must be a boolean array of shape ({self.num_envs},) with at least one True, "
                f"not {mask.dtype} of shape {mask.shape}"
            )
        if not self._state.started[0] and not mask.all():
            raise ValueError("the first reset must be of all environments: leave reset_mask out")
        return np.array(mask)

    def _elapsed(self, options: dict[str, Any] | None) -> np.ndarray:
        elapsed = np.asarray((options or {}).get("elapsed", np.zeros(self.num_envs, np.int64)))
        whole = elapsed.shape == (self.num_envs,) and elapsed.dtype.kind in "iu"
        if not whole or elapsed.min() < 0 or elapsed.max() >= self.max_episode_steps:
            raise ValueError(
                f"elapsed must be {self.num_envs} integers from 0 to {self.max_episode_steps - 1}, "
                f"not {elapsed.dtype} of shape {elapsed.shape}"
            )
        return elapsed

    def seed_generators(self, seed: Seed) -> None:
        """Start generators afresh, so that the next `reset()` is as `reset(seed=seed)`."""
        for i, one in enumerate(seeds_of_envs(seed, self.num_envs)):
            if one is not None:
                self._state.generators[i] = seeded_generator(one)
                self._state.seeded[i] = True

    def step(self, actions: Any) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, Info]:
        """Play `actions` int [B]; return observations, `reward` float64 [B], two flags bool [B], info."""
        if not self._state.started[0]:
            raise RuntimeError("call reset() before step()")
        played = self._checked_actions(actions)
        resetting = self._state.ended
        if resetting.any():
            self._start_levels(resetting)
        outputs = (
            np.empty(self.num_envs, dtype=np.float64),
            np.empty(self.num_envs, dtype=np.bool_),
            np.empty(self.num_envs, dtype=np.bool_),
        )
        self._play(played, resetting, outputs)
        reward, terminated, truncated = outputs
        np.logical_or(terminated, truncated, out=self._state.ended)
        observation, info = self.observe()
        info |= ended_episodes(self._state.ended, self._state.returns, self._state.elapsed)
        return observation, reward, terminated, truncated, info

    def _checked_actions(self, actions: Any) -> np.ndarray:
        given = np.asarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise ValueError(f"step needs {self.num_envs} integer actions, not {given.dtype} of shape {given.shape}")
        played = np.ascontiguousarray(given, dtype=np.int64)
        wrong = kernels.first_invalid_action(played, self._state.ended)
        if wrong >= 0:
            raise ValueError(f"action {given[wrong]} of environment {wrong} is not between 0 and 6")
        return played

    def _start_levels(self, mask: np.ndarray) -> None:
        if self._fixed_generator is not None:
            self._state.generators[mask] = self._fixed_generator
        self._generate(
            mask,
            self._parameters,
            self._state.cells,
            self._state.agent,
            self._state.target,
            self._state.obstacles,
            self._state.generators,
        )
        kernels.begin_episodes(
            mask,
            self._state.cells,
            self._state.carried,
            self._state.elapsed,
            self._state.returns,
            self._state.grid_hash,
        )

    def _play(self, actions: np.ndarray, resetting: np.ndarray, outputs: tuple[np.ndarray, ...]) -> None:
        if self._before_step is not None:
            actions = actions.copy()
            self._before_step(
                actions,
                resetting,
                self._state.cells,
                self._state.agent,
                self._state.obstacles,
                self._state.grid_hash,
                self._state.generators,
                self._state.hits_obstacle,
            )
        kernels.step(
            actions,
            resetting,
            self._state.hits_obstacle,
            self._doors_in_order,
            self._reward_at,
            self.max_episode_steps,
            self._state.cells,
            self._state.agent,
            self._state.carried,
            self._state.target,
            self._state.elapsed,
            self._state.returns,
            self._state.grid_hash,
            *outputs,
        )

    def observe(self) -> tuple[Observation, Info]:
        """The observations and `info` of the present states, as after `reset`."""
        envs = self.num_envs
        image = np.empty((envs, VIEW, VIEW, 3), dtype=np.uint8)
        direction = np.empty(envs, dtype=np.int64)
        position = np.empty((envs, 2), dtype=np.int64)
        state_key = np.empty(envs, dtype=np.uint64)
        kernels.observe(
            self.task.see_through_walls,
            self._state.cells,
            self._state.agent,
            self._state.carried,
            self._state.grid_hash,
            image,
            direction,
            position,
            state_key,
        )
        observation: Observation = {"image": image, "direction": direction}
        if self.full_grid:
            grid = np.empty((envs, self.task.width, self.task.height, 3), dtype=np.uint8)
            kernels.encode_grids(self._state.cells, self._state.agent, grid)
            observation["grid"] = grid
        info = {"agent_pos": position, "elapsed_steps": self._state.elapsed.copy(), "state_key": state_key}
        return observation, info

    def peek(self, i: int) -> tuple[np.ndarray, tuple[int, int, int], int, int]:
        """Cell codes uint32 [W, H] (a view), the agent's x, y, direction, its load and its target (0: nothing)."""
        x, y, direction = self._state.agent[i].tolist()
        return self._state.grids[i], (x, y, direction), int(self._state.carried[i]), int(self._state.target[i])

    def get_state(self) -> dict[str, np.ndarray]:
        """Copies of everything that the future depends on, generators included."""
        return self._state.save(self.task)

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from a state of `get_state`; one that does not fit raises `UsageError`, changing nothing."""
        self._state.restore(self.task, state)

    def render(self) -> tuple[Any, ...]:
        """One picture per environment, uint8 [32 H, 32 W, 3]."""
        return tuple(self.render_env(i) for i in range(self.num_envs))

    def render_env(self, i: int) -> np.ndarray:
        """The picture of environment i, drawn by Farama's renderer."""
        if self._renderer is None:
            from bebold.gridworld.render import Renderer

            self._renderer = Renderer(self.task)
        return self._renderer.draw(self._state.grids[i], self._state.agent[i], int(self._state.carried[i]))
