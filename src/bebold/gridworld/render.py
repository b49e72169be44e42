"""Pictures of the engine's states, drawn by Farama's own renderer."""

from __future__ import annotations

from typing import Any

import numpy as np

from bebold.gridworld.cells import EMPTY_CELL
from bebold.gridworld.tasks import Task, make_farama


class Renderer:
    """Draws states of one task: the whole grid, the agent, and what it sees highlighted."""

    def __init__(self, task: Task) -> None:
        self._env: Any = make_farama(task, render_mode="rgb_array").unwrapped

    def draw(self, cells: np.ndarray, agent: np.ndarray, carried: int) -> np.ndarray:
        """One picture, uint8 [32 H, 32 W, 3], of `cells` uint32 [W, H], `agent` int64 [3] and its load."""
        from minigrid.core.grid import Grid

        width, height = cells.shape
        self._env.grid = Grid(width, height)
        self._env.grid.grid = [_farama_object(int(code)) for code in cells.T.ravel()]
        self._env.agent_pos = (int(agent[0]), int(agent[1]))
        self._env.agent_dir = int(agent[2])
        self._env.carrying = _farama_object(carried) if carried else None
        return self._env.get_frame(highlight=True, tile_size=self._env.tile_size)


def _farama_object(code: int) -> object | None:
    from minigrid.core.world_object import WorldObj

    if code == EMPTY_CELL:
        return None
    return WorldObj.decode(code & 0xFF, code >> 8 & 0xFF, code >> 16 & 0xFF)
