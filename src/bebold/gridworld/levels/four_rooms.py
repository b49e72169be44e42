"""FourRooms: four rooms joined by gaps in their walls, agent and goal anywhere."""

from __future__ import annotations

from bebold.gridworld.cells import EMPTY_CELL, GOAL_CELL, WALL_CELL
from bebold.gridworld.placement import (
    horizontal_line,
    inside_frame,
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
    room_width, room_height = width // 2, height // 2
    walled_room(grid)
    for j in range(2):
        for i in range(2):
            left, top = i * room_width, j * room_height
            right, bottom = left + room_width, top + room_height
            if i == 0:
                vertical_line(grid, right, top, room_height, WALL_CELL)
                grid[right, integers(rng, top + 1, bottom)] = EMPTY_CELL
            if j == 0:
                horizontal_line(grid, left, bottom, room_width, WALL_CELL)
                grid[integers(rng, left + 1, right), bottom] = EMPTY_CELL
    place_agent(rng, grid, agent, 0, 0, width, height)
    place_object(rng, grid, agent, 0, 0, width, height, GOAL_CELL)
