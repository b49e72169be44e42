"""RedBlueDoors: a red door in the left wall and a blue one in the right, to be opened in this order."""

from __future__ import annotations

from bebold.gridworld.cells import BLUE, RED
from bebold.gridworld.placement import door_cell, inside_frame, place_agent, wall_rectangle, walled_room
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
    size = grid.shape[1]
    left = size // 2
    walled_room(grid)
    wall_rectangle(grid, left, 0, size, size)
    place_agent(rng, grid, agent, left, 0, size, size)
    grid[left, integers(rng, 1, size - 1)] = door_cell(RED, False)
    grid[left + size - 1, integers(rng, 1, size - 1)] = door_cell(BLUE, False)
