"""DoorKey: a wall with a locked yellow door, its key on the agent's side, the goal on the other."""

from __future__ import annotations

from bebold.gridworld.cells import GOAL_CELL, WALL_CELL, YELLOW
from bebold.gridworld.placement import (
    door_cell,
    inside_frame,
    key_cell,
    place_agent,
    place_object,
    vertical_line,
    walled_room,
)
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
    walled_room(grid)
    grid[width - 2, height - 2] = GOAL_CELL
    split = integers(rng, 2, width - 2)
    vertical_line(grid, split, 0, height, WALL_CELL)
    place_agent(rng, grid, agent, 0, 0, split, height)
    grid[split, integers(rng, 1, height - 2)] = door_cell(YELLOW, True)
    place_object(rng, grid, agent, 0, 0, split, height, key_cell(YELLOW))
