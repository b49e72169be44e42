"""A player that reaches deep states of every task, for comparing engines and for tests."""

from __future__ import annotations

from collections import deque

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
from bebold.gridworld.kernels import DROP, FORWARD, PICK_UP, TOGGLE, TURN_LEFT
from bebold.gridworld.solver import Agent, moves_along, next_moves, reachable, way_back
from bebold.gridworld.vector import MiniGridVectorEnv


class Explorer:
    """It mixes random actions with walks to random objects, which it uses.

    It opens doors with the key it carries, breaks boxes, carries things about and takes the goal. In some
    environments it is eager to get on, in others it dawdles; in a share `knowing` of them it knows how to solve
    the level and mostly does.
    """

    def __init__(self, num_envs: int, rng: np.random.Generator, knowing: float = 0.5) -> None:
        self.plans: list[deque[int]] = [deque() for _ in range(num_envs)]
        self.eagerness = rng.random(num_envs)
        self.knows_how = rng.random(num_envs) < knowing
        self.rng = rng

    def act(self, envs: MiniGridVectorEnv) -> np.ndarray:
        """One action for each environment, int64 [B]."""
        for i, plan in enumerate(self.plans):
            if not plan:
                plan.extend(self._plan(envs, i))
        return np.array([plan.popleft() for plan in self.plans])

    def forget(self, mask: np.ndarray) -> None:
        """Drop the plans of the environments in `mask` bool [B]: their episodes are over."""
        for i in np.flatnonzero(mask):
            self.plans[i].clear()

    def _plan(self, envs: MiniGridVectorEnv, i: int) -> list[int]:
        if self.rng.random() < 0.3 * (1 - self.eagerness[i]):
            return self.rng.integers(0, 7, size=self.rng.integers(1, 12)).tolist()
        cells, agent, carried, target = envs.peek(i)
        if self.knows_how[i]:
            moves = next_moves(cells, agent, carried, target)
            if moves:
                return moves
        return self._explore(cells, agent, carried, self.eagerness[i])

    def _explore(self, cells: np.ndarray, agent: Agent, carried: int, eagerness: float) -> list[int]:
        x, y, facing = agent
        places, came = reachable(cells, x, y)
        beyond = places[:, None] + np.stack([STEP_X, STEP_Y], axis=-1)  # [N, 4, 2]
        codes = cells[beyond[..., 0], beyond[..., 1]]
        things = np.argwhere((codes != EMPTY_CELL) & (codes != WALL_CELL))
        if len(things) == 0:
            return [TURN_LEFT]
        if self.rng.random() < eagerness:
            promises = np.array([_promise(int(codes[k, direction]), carried) for k, direction in things])
            things = things[promises == promises.max()]
        k, direction = things[self.rng.integers(len(things))].tolist()
        place = (int(places[k, 0]), int(places[k, 1]))
        return [
            *moves_along([*way_back(came, place), direction], facing)[:-1],
            *self._use(int(codes[k, direction]), carried),
        ]

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
