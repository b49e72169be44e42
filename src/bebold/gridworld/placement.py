"""Kernels shared by the level generators. A `grid` is int32-coded cells [W, H] without the frame of walls."""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import (
    BALL,
    BLUE_GREEN_GREY_PURPLE_RED_YELLOW,
    BOX,
    CLOSED,
    DOOR,
    EMPTY_CELL,
    FRAME,
    KEY,
    LOCKED,
    OPAQUE_BIT,
    WALL_CELL,
)
from bebold.gridworld.random import integers
from bebold.jit import jit

ALPHABETICAL_COLORS = np.array(BLUE_GREEN_GREY_PURPLE_RED_YELLOW, dtype=np.int64)


@jit
def door_cell(color, locked):
    """The code of a closed or locked door."""
    return DOOR | color << 8 | (LOCKED if locked else CLOSED) << 16 | OPAQUE_BIT


@jit
def key_cell(color):
    """The code of a key."""
    return KEY | color << 8


@jit
def ball_cell(color):
    """The code of a ball."""
    return BALL | color << 8


@jit
def box_with_key_cell(color, key_color):
    """The code of a box that hides a key."""
    return BOX | color << 8 | KEY << 24 | key_color << 28


@jit
def inside_frame(framed):
    """The grid [W, H] inside its frame of walls: a view, not a copy."""
    return framed[FRAME:-FRAME, FRAME:-FRAME]


@jit
def random_color(rng):
    """One of the six colours; Farama draws an index into their names in alphabetical order."""
    return ALPHABETICAL_COLORS[integers(rng, 0, 6)]


@jit
def horizontal_line(grid, x, y, length, code):
    """Fill `length` cells from (x, y) to the right."""
    for i in range(length):
        grid[x + i, y] = code


@jit
def vertical_line(grid, x, y, length, code):
    """Fill `length` cells from (x, y) downwards."""
    for i in range(length):
        grid[x, y + i] = code


@jit
def wall_rectangle(grid, x, y, width, height):
    """Draw the outline of a rectangle in walls."""
    horizontal_line(grid, x, y, width, WALL_CELL)
    horizontal_line(grid, x, y + height - 1, width, WALL_CELL)
    vertical_line(grid, x, y, height, WALL_CELL)
    vertical_line(grid, x + width - 1, y, height, WALL_CELL)


@jit
def walled_room(grid):
    """Clear the grid and draw its outer walls."""
    grid[:] = EMPTY_CELL
    wall_rectangle(grid, 0, 0, grid.shape[0], grid.shape[1])


@jit
def free_position(rng, grid, agent, left, top, width, height, keep_away):
    """Draw positions (x, then y) in a rectangle until one is empty, not the agent's, and `keep_away` from it.

    Farama gives up after some hundred tries; with the rooms here that has a probability below 1e-14.
    """
    while True:
        x = integers(rng, left, min(left + width, grid.shape[0]))
        y = integers(rng, top, min(top + height, grid.shape[1]))
        distance = abs(agent[0] - x) + abs(agent[1] - y)
        if grid[x, y] == EMPTY_CELL and distance >= keep_away:
            return x, y


@jit
def place_object(rng, grid, agent, left, top, width, height, code):
    """Put an object on a random empty cell of a rectangle, not where the agent is."""
    x, y = free_position(rng, grid, agent, left, top, width, height, 1)
    grid[x, y] = code


@jit
def place_agent(rng, grid, agent, left, top, width, height):
    """Put the agent [x, y, direction] on a random empty cell of a rectangle, then draw its direction."""
    agent[0], agent[1] = -1, -1
    x, y = free_position(rng, grid, agent, left, top, width, height, 0)
    agent[0], agent[1] = x, y
    agent[2] = integers(rng, 0, 4)
