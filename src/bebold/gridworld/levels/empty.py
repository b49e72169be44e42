"""Empty: one room with a goal in the far corner; the agent starts in the near one or anywhere."""

from __future__ import annotations

from bebold.gridworld.cells import GOAL_CELL, RIGHT
from bebold.gridworld.placement import inside_frame, place_agent, walled_room
from bebold.jit import jit


@jit
def generate(mask, parameters, cells, agent, target, obstacles, rng):
    """Draw levels; parameters: whether the agent starts anywhere."""
    for b in range(mask.shape[0]):
        if mask[b]:
            build_empty_room(rng[b], inside_frame(cells[b]), agent[b], parameters[0] != 0)
            target[b] = 0


@jit
def build_empty_room(rng, grid, agent, random_start):
    """One room with a goal in the far corner and the agent in the near one or anywhere."""
    width, height = grid.shape
    walled_room(grid)
    grid[width - 2, height - 2] = GOAL_CELL
    if random_start:
        place_agent(rng, grid, agent, 0, 0, width, height)
    else:
        agent[0], agent[1], agent[2] = 1, 1, RIGHT
