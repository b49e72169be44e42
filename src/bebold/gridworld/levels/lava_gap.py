"""LavaGap: a column of lava with one gap between the agent and the goal."""

from __future__ import annotations

from bebold.gridworld.cells import EMPTY_CELL, LAVA_CELL
from bebold.gridworld.levels.empty import build_empty_room
from bebold.gridworld.placement import inside_frame, vertical_line
from bebold.gridworld.random import integers
from bebold.jit import jit


@jit
def generate(mask, parameters, cells, agent, target, obstacles, rng):
    """Draw levels; there are no parameters."""
    for b in range(mask.shape[0]):
        if mask[b]:
            _generate(rng[b], inside_frame(cells[b]), agent[b])
            target[b] = 0


@jit
def _generate(rng, grid, agent):
    width, height = grid.shape
    build_empty_room(rng, grid, agent, False)
    x = integers(rng, 2, width - 2)
    y = integers(rng, 1, height - 1)
    vertical_line(grid, x, 1, height - 2, LAVA_CELL)
    grid[x, y] = EMPTY_CELL
