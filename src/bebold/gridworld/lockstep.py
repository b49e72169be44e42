"""Walk this engine and Farama's MiniGrid side by side and count every difference."""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bebold.gridworld.cells import (
    BALL,
    BOX,
    DOOR,
    EMPTY_CELL,
    GOAL,
    KEY,
    LAVA,
    LOCKED,
    OPAQUE_BIT,
    STEP_X,
    STEP_Y,
    WALL_CELL,
)
from bebold.gridworld.kernels import DROP, FORWARD, PICK_UP, TOGGLE, TURN_LEFT, TURN_RIGHT
from bebold.gridworld.random import pack_generator
from bebold.gridworld.tasks import Task, find_task, make_farama
from bebold.gridworld.vector import MiniGridVectorEnv

if TYPE_CHECKING:
    from minigrid.core.world_object import WorldObj
    from minigrid.minigrid_env import MiniGridEnv

FULL_GRID_EVERY = 64  # Farama encodes a full grid in about 0.5 ms, and the cells are compared at every step anyway.


@dataclasses.dataclass
class Report:
    """What a walk saw. `differences` counts unequal values by field and should be empty."""

    steps: int = 0
    levels: int = 0
    successes: int = 0
    failures: int = 0
    timeouts: int = 0
    pickups: int = 0
    opened: int = 0
    differences: Counter[str] = dataclasses.field(default_factory=Counter)

    def __iadd__(self, other: Report) -> Report:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


def walk(task: str | Task, seeds: Sequence[int], steps: int, policy_seed: int = 0) -> Report:
    """Play `steps` steps in one environment per seed, here and in Farama's, comparing everything at each."""
    task = find_task(task)
    ours = MiniGridVectorEnv(task, len(seeds), full_grid=True)
    theirs: list[Any] = [make_farama(task).unwrapped for _ in seeds]
    explorer = Explorer(len(seeds), np.random.default_rng([policy_seed, *seeds]))
    report = Report(levels=len(seeds))
    observation, _ = ours.reset(seed=list(seeds))
    images = [env.reset(seed=seed)[0]["image"] for env, seed in zip(theirs, seeds, strict=True)]
    _compare_states(report, ours, observation, theirs, images, full_grid=True)
    ended = np.zeros(len(seeds), dtype=np.bool_)
    for time in range(steps):
        actions = explorer.act(ours)
        before = ours.get_state()
        observation, *outcome, _ = ours.step(actions)
        played = zip(theirs, actions.tolist(), ended.tolist(), strict=True)
        expected = [_play(env, action, end) for env, action, end in played]
        images = [each[0] for each in expected]
        for name, ours_now, theirs_now in zip(
            ("reward", "terminated", "truncated"), outcome, list(zip(*expected, strict=True))[1:], strict=True
        ):
            report.differences[name] += int((ours_now != np.array(theirs_now)).sum())
        full_grid = time % FULL_GRID_EVERY == 0
        _compare_states(report, ours, observation, theirs, images, full_grid)
        reward, terminated, truncated = outcome
        _count(report, ended, reward, terminated, truncated, before, ours)
        ended = terminated | truncated
    report.differences = +report.differences
    return report


def _count(
    report: Report, reset: np.ndarray, reward: Any, terminated: Any, truncated: Any, before: Any, ours: Any
) -> None:
    now = ours.get_state()
    report.steps += int((~reset).sum())
    report.levels += int(reset.sum())
    report.successes += int((reward > 0).sum())
    report.failures += int((terminated & (reward <= 0)).sum())
    report.timeouts += int((truncated & ~terminated).sum())
    report.pickups += int(((before["carried"] == 0) & (now["carried"] != 0) & ~reset).sum())
    changed = (before["cells"] != now["cells"]) & (before["cells"] & 0xFF == DOOR) & (now["cells"] & OPAQUE_BIT == 0)
    report.opened += int(changed[~reset].sum())


def _play(env: Any, action: int, ended: bool) -> tuple[np.ndarray, float, bool, bool]:
    """Step a Farama environment with NEXT_STEP autoreset."""
    if ended:
        return env.reset()[0]["image"], 0.0, False, False
    observation, reward, terminated, truncated, _ = env.step(action)
    return observation["image"], reward, terminated, truncated


def _compare_states(
    report: Report,
    ours: MiniGridVectorEnv,
    observation: dict[str, np.ndarray],
    theirs: Sequence[MiniGridEnv],
    images: Sequence[np.ndarray],
    full_grid: bool,
) -> None:
    state = ours.get_state()
    expected = {
        "cells": np.array([farama_cells(env) for env in theirs]),
        "agent": np.array([[*env.agent_pos, env.agent_dir] for env in theirs]),
        "carried": np.array([farama_cell(env.carrying) if env.carrying else 0 for env in theirs]),
        "generators": np.array([pack_generator(env.np_random.bit_generator) for env in theirs]),
        "elapsed": np.array([env.step_count for env in theirs]),
    }
    for name, value in expected.items():
        report.differences[name] += int((state[name] != value).sum())
    report.differences["image"] += int((observation["image"] != np.array(images)).sum())
    report.differences["direction"] += int((observation["direction"] != expected["agent"][:, 2]).sum())
    if full_grid:
        grids = np.array([farama_full_grid(env) for env in theirs])
        report.differences["grid"] += int((observation["grid"] != grids).sum())


def farama_full_grid(env: MiniGridEnv) -> np.ndarray:
    """What Farama's FullyObsWrapper shows, uint8 [W, H, 3]."""
    from minigrid.wrappers import FullyObsWrapper

    return FullyObsWrapper(env).observation({})["image"]


def farama_cells(env: MiniGridEnv) -> np.ndarray:
    """The codes of all cells of a Farama environment, uint32 [W, H]."""
    codes = np.array([farama_cell(thing) if thing else EMPTY_CELL for thing in env.grid.grid], np.uint32)
    return codes.reshape(env.height, env.width).T


def farama_cell(thing: WorldObj | None) -> int:
    """The code of one of Farama's objects, contents included."""
    if thing is None:
        return EMPTY_CELL
    if thing.type == "wall":
        return WALL_CELL
    kind, color, state = thing.encode()
    code = kind | color << 8 | state << 16
    if thing.contains is not None:
        inner_kind, inner_color, _ = thing.contains.encode()
        code |= inner_kind << 24 | inner_color << 28
    return code if thing.see_behind() else code | OPAQUE_BIT


class Explorer:
    """A policy that reaches deep states: it mixes random actions with walks to random objects, which it uses.

    It opens doors with the key it carries, breaks boxes, carries things about and takes the goal. In some
    environments it is eager to get on, in others it dawdles.
    """

    def __init__(self, num_envs: int, rng: np.random.Generator) -> None:
        self.plans: list[deque[int]] = [deque() for _ in range(num_envs)]
        self.eagerness = rng.random(num_envs)
        self.rng = rng

    def act(self, envs: MiniGridVectorEnv) -> np.ndarray:
        """One action for each environment, int64 [B]."""
        for i, plan in enumerate(self.plans):
            if not plan:
                plan.extend(self._plan(envs, i))
        return np.array([plan.popleft() for plan in self.plans])

    def _plan(self, envs: MiniGridVectorEnv, i: int) -> list[int]:
        if self.rng.random() < 0.3 * (1 - self.eagerness[i]):
            return self.rng.integers(0, 7, size=self.rng.integers(1, 12)).tolist()
        cells, (x, y, facing), carried = envs.peek(i)
        routes = _routes(cells, x, y)
        things = [
            (beside, direction, code)
            for beside in routes
            for direction in range(4)
            if (code := int(cells[beside[0] + STEP_X[direction], beside[1] + STEP_Y[direction]]))
            not in (EMPTY_CELL, WALL_CELL)
        ]
        if not things:
            return [TURN_LEFT]
        if self.rng.random() < self.eagerness[i]:
            best = max(_promise(code, carried) for *_, code in things)
            things = [thing for thing in things if _promise(thing[2], carried) == best]
        beside, direction, code = things[self.rng.integers(len(things))]
        plan: list[int] = []
        for step in [*_path(routes, beside), direction]:
            plan += [(), (TURN_RIGHT,), (TURN_RIGHT, TURN_RIGHT), (TURN_LEFT,)][(step - facing) % 4]
            plan.append(FORWARD)
            facing = step
        return [*plan[:-1], *self._use(code, carried)]

    def _use(self, code: int, carried: int) -> list[int]:
        kind = code & 0xFF
        if kind == DOOR:
            return [TOGGLE, FORWARD, FORWARD] if self.rng.random() < 0.9 else [TOGGLE, TOGGLE]
        if kind == BOX and self.rng.random() < 0.8:
            return [TOGGLE, PICK_UP]
        if kind in (KEY, BALL, BOX):
            # With full hands: turn away, put that down if there is room, turn back, take the other.
            return [TURN_LEFT, TURN_LEFT, DROP, TURN_LEFT, TURN_LEFT, PICK_UP] if carried else [PICK_UP]
        if kind == GOAL:
            return [FORWARD] if self.rng.random() < 0.7 else [TURN_LEFT]
        if kind == LAVA:
            return [FORWARD] if self.rng.random() < 0.1 else [TURN_LEFT]
        return [FORWARD]


def _promise(code: int, carried: int) -> int:
    """How much getting at a thing is likely to help."""
    kind = code & 0xFF
    if kind == GOAL:
        return 4
    if kind == DOOR and code & OPAQUE_BIT:
        fits = code >> 16 & 0xFF != LOCKED or carried == (KEY | code & 0xFF00)
        return 3 if fits else 0
    if kind == BOX:
        return 2
    return 1 if kind in (KEY, BALL) and not carried else 0


def _routes(cells: np.ndarray, x: int, y: int) -> dict[tuple[int, int], tuple[tuple[int, int], int] | None]:
    """Every place that can be walked to, with the place before it and the direction of the last step."""
    routes: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {(x, y): None}
    waiting = deque(routes)
    while waiting:
        place = waiting.popleft()
        for direction in range(4):
            beyond = (place[0] + STEP_X[direction], place[1] + STEP_Y[direction])
            code = int(cells[beyond])
            is_free = code == EMPTY_CELL or (code & 0xFF == DOOR and not code & OPAQUE_BIT)
            if is_free and beyond not in routes:
                routes[beyond] = (place, direction)
                waiting.append(beyond)
    return routes


def _path(routes: dict[Any, Any], place: tuple[int, int]) -> list[int]:
    directions = []
    while routes[place] is not None:
        place, direction = routes[place]
        directions.append(direction)
    return directions[::-1]
