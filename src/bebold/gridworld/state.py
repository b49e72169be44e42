"""All that changes while the environments are played, as plain arrays, and its saving and restoring."""

from __future__ import annotations

import dataclasses

import numpy as np

from bebold.errors import UsageError
from bebold.gridworld import kernels
from bebold.gridworld.cells import CELL_CODES, FRAME, LOAD_CODES, WALL_CELL
from bebold.gridworld.random import GENERATOR_WORDS, HAS_SPARE, INCREMENT_LOW, SPARE
from bebold.gridworld.tasks import Task


@dataclasses.dataclass
class State:
    """The state of B environments of one task."""

    cells: np.ndarray  # uint32 [B, W + 2 FRAME, H + 2 FRAME]: codes as in `cells.py`
    agent: np.ndarray  # int64 [B, 3]: x, y, direction
    carried: np.ndarray  # uint32 [B]: code of the object in hand, 0 if none
    target: np.ndarray  # uint32 [B]: code of the object whose pickup is a success, 0 if none
    obstacles: np.ndarray  # int64 [B, N, 2]: x, y of moving balls
    elapsed: np.ndarray  # int64 [B]: steps of the episode
    returns: np.ndarray  # float64 [B]: reward of the episode
    grid_hash: np.ndarray  # uint64 [B]: follows from the cells
    generators: np.ndarray  # uint64 [B, 6]: as in `random.py`
    seeded: np.ndarray  # bool [B]: the generator has been started
    ended: np.ndarray  # bool [B]: the next step resets
    hits_obstacle: np.ndarray  # bool [B]: the agent faced an obstacle before the obstacles moved
    started: np.ndarray  # bool [1]: there has been a reset

    @classmethod
    def empty(cls, task: Task, num_envs: int) -> State:
        """The arrays before any level is drawn."""
        framed = (num_envs, task.width + 2 * FRAME, task.height + 2 * FRAME)
        return cls(
            cells=np.full(framed, WALL_CELL, dtype=np.uint32),
            agent=np.zeros((num_envs, 3), dtype=np.int64),
            carried=np.zeros(num_envs, dtype=np.uint32),
            target=np.zeros(num_envs, dtype=np.uint32),
            obstacles=np.zeros((num_envs, dict(task.parameters).get("obstacles", 0), 2), dtype=np.int64),
            elapsed=np.zeros(num_envs, dtype=np.int64),
            returns=np.zeros(num_envs, dtype=np.float64),
            grid_hash=np.zeros(num_envs, dtype=np.uint64),
            generators=np.zeros((num_envs, GENERATOR_WORDS), dtype=np.uint64),
            seeded=np.zeros(num_envs, dtype=np.bool_),
            ended=np.zeros(num_envs, dtype=np.bool_),
            hits_obstacle=np.zeros(num_envs, dtype=np.bool_),
            started=np.zeros(1, dtype=np.bool_),
        )

    @property
    def grids(self) -> np.ndarray:
        """The cells without their frame, a view [B, W, H]."""
        return self.cells[:, FRAME:-FRAME, FRAME:-FRAME]

    def save(self, task: Task) -> dict[str, np.ndarray]:
        """Copies of all arrays but the frame and the hash, and the task's id as bytes."""
        saved = {field.name: getattr(self, field.name).copy() for field in dataclasses.fields(self)}
        saved["cells"] = self.grids.copy()
        del saved["grid_hash"]
        saved["task"] = np.frombuffer(task.id.encode(), dtype=np.uint8).copy()
        return saved

    def restore(self, task: Task, saved: dict[str, np.ndarray]) -> None:
        """Take over saved arrays, or raise a `UsageError` and leave everything as it was.

        The arrays may come from a file that anybody has written, and the kernels check no index.
        """
        saved = {name: np.asarray(value) for name, value in saved.items()}
        _check_layout(task, saved, self.save(task))
        _check_values(task, saved)
        self.grids[:] = saved["cells"]
        for name in saved.keys() - {"cells", "task"}:
            getattr(self, name)[:] = saved[name]
        kernels.hash_grids(np.ones(len(self.agent), dtype=np.bool_), self.cells, self.grid_hash)


def _check_layout(task: Task, saved: dict[str, np.ndarray], own: dict[str, np.ndarray]) -> None:
    """Refuse arrays of another task, another number of environments, or other kinds than our `own`."""
    if saved.keys() != own.keys():
        raise UsageError(f"a saved state has the arrays {', '.join(own)}, not {', '.join(map(str, saved))}")
    for name, value in saved.items():
        if (value.dtype, value.ndim) != (own[name].dtype, own[name].ndim):
            raise UsageError(
                f"the saved array {name!r} is {value.dtype} {value.shape}, not {own[name].dtype} {own[name].shape}"
            )
    saved_id = saved["task"].tobytes().decode(errors="replace")
    if saved_id != task.id:
        raise UsageError(f"this state was saved from {saved_id}, not from {task.id}")
    if len(saved["agent"]) != len(own["agent"]):
        raise UsageError(f"this state has {len(saved['agent'])} environments, not {len(own['agent'])}")
    for name, value in saved.items():
        if value.shape != own[name].shape:
            raise UsageError(f"the saved array {name!r} has the shape {value.shape}, not {own[name].shape}")


def _check_values(task: Task, saved: dict[str, np.ndarray]) -> None:
    """Refuse numbers that no game of this task can have."""

    def between_0_and(most: int | list[int], name: str) -> np.ndarray:
        return (saved[name] >= 0) & (saved[name] <= np.array(most))

    right, bottom = task.width - 1, task.height - 1
    generators = saved["generators"]
    # NumPy's increments are odd. With an even one a generator can repeat a number for ever, and with it
    # the search for a free place.
    sound = (generators[:, HAS_SPARE] <= 1) & (generators[:, SPARE] < 1 << 32)
    sound &= (generators[:, INCREMENT_LOW] & np.uint64(1) == 1) | ~saved["seeded"]
    possible = {
        "cells": np.isin(saved["cells"], CELL_CODES),
        "agent": between_0_and([right, bottom, 3], "agent"),
        "carried": np.isin(saved["carried"], LOAD_CODES) | (saved["carried"] == 0),
        "target": np.isin(saved["target"], LOAD_CODES) | (saved["target"] == 0),
        "obstacles": between_0_and([right, bottom], "obstacles"),
        "elapsed": between_0_and(task.max_steps, "elapsed"),
        "returns": np.isfinite(saved["returns"]),
        "generators": sound,
    }
    # A truth value is a byte, and a file can hold any.
    possible |= {name: value.view(np.uint8) <= 1 for name, value in saved.items() if value.dtype == np.bool_}
    damaged = [name for name, values in possible.items() if not values.all()]
    if damaged:
        raise UsageError(f"the saved array {damaged[0]!r} holds values no {task.id} can have: it is damaged")
    if saved["started"][0] and not saved["seeded"].all():
        raise UsageError("the saved state is damaged: a game was started without random numbers")
    if (saved["elapsed"] >= task.max_steps)[~saved["ended"]].any():
        raise UsageError("the saved state is damaged: an episode goes on after its last step")
