"""MultiRoom: a chain of rooms with doors between them, the agent in the first and the goal in the last."""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import DOWN, EMPTY_CELL, GOAL_CELL, LEFT, RIGHT
from bebold.gridworld.placement import (
    ALPHABETICAL_COLORS,
    door_cell,
    inside_frame,
    place_agent,
    place_object,
    wall_rectangle,
)
from bebold.gridworld.random import integers
from bebold.jit import jit

SMALLEST_ROOM = 4
TRIES_PER_ROOM = 8
X, Y, WIDTH, HEIGHT, DOOR_X, DOOR_Y = range(6)


@jit
def generate(mask, parameters, cells, agent, target, obstacles, rng):
    """Draw levels; parameters: fewest rooms, most rooms, largest room."""
    rooms = np.empty((parameters[1], 6), dtype=np.int64)
    for b in range(mask.shape[0]):
        if mask[b]:
            _generate(rng[b], inside_frame(cells[b]), agent[b], parameters, rooms)
            target[b] = 0


@jit
def _generate(rng, grid, agent, parameters, rooms):
    count = integers(rng, parameters[0], parameters[1] + 1)
    # Farama keeps the longest chain so far, but stops at the first complete one, so only that one matters.
    while not _draw_chain(rng, rooms, count, parameters[2], grid.shape[0], grid.shape[1]):
        pass
    grid[:] = EMPTY_CELL
    color_rank = -1
    for k in range(count):
        wall_rectangle(grid, rooms[k, X], rooms[k, Y], rooms[k, WIDTH], rooms[k, HEIGHT])
        if k > 0:
            color_rank = _next_color_rank(rng, color_rank)
            grid[rooms[k, DOOR_X], rooms[k, DOOR_Y]] = door_cell(ALPHABETICAL_COLORS[color_rank], False)
    first, last = rooms[0], rooms[count - 1]
    place_agent(rng, grid, agent, first[X], first[Y], first[WIDTH], first[HEIGHT])
    place_object(rng, grid, agent, last[X], last[Y], last[WIDTH], last[HEIGHT], GOAL_CELL)


@jit
def _next_color_rank(rng, previous):
    """Alphabetical rank of a door colour other than the previous door's."""
    if previous < 0:
        return integers(rng, 0, 6)
    rank = integers(rng, 0, 5)
    return rank + (rank >= previous)


@jit
def _draw_chain(rng, rooms, count, largest, grid_width, grid_height):
    """Draw one chain of rooms; False if it ended before `count` rooms.

    Farama recurses, but a room once placed is never taken back, so one loop draws the same numbers.
    """
    door_x = integers(rng, 0, grid_width - 2)
    door_y = integers(rng, 0, grid_width - 2)
    entry_wall = LEFT
    placed = 0
    tries = 0
    while True:
        if _draw_room(rng, rooms, placed, largest, entry_wall, door_x, door_y, grid_width, grid_height):
            placed += 1
            tries = 0
            own_entry_wall = entry_wall
        else:
            tries += 1
        if placed == count:
            return True
        if placed == 0 or tries == TRIES_PER_ROOM:
            return False
        exit_wall = integers(rng, 0, 3)
        exit_wall += exit_wall >= own_entry_wall
        x, y = rooms[placed - 1, X], rooms[placed - 1, Y]
        width, height = rooms[placed - 1, WIDTH], rooms[placed - 1, HEIGHT]
        if exit_wall in (RIGHT, LEFT):
            door_x = x + width - 1 if exit_wall == RIGHT else x
            door_y = y + integers(rng, 1, height - 1)
        else:
            door_x = x + integers(rng, 1, width - 1)
            door_y = y + height - 1 if exit_wall == DOWN else y
        entry_wall = (exit_wall + 2) % 4


@jit
def _draw_room(rng, rooms, placed, largest, entry_wall, door_x, door_y, grid_width, grid_height):
    """Draw a room with its entry door at a given place; store it as room `placed` if it fits."""
    width = integers(rng, SMALLEST_ROOM, largest + 1)
    height = integers(rng, SMALLEST_ROOM, largest + 1)
    x, y = door_x, door_y
    if placed > 0:
        if entry_wall in (RIGHT, LEFT):
            if entry_wall == RIGHT:
                x = door_x - width + 1
            y = integers(rng, door_y - height + 2, door_y)
        else:
            if entry_wall == DOWN:
                y = door_y - height + 1
            x = integers(rng, door_x - width + 2, door_x)
    # Farama's bounds are one cell stricter downwards, and so is the gap it asks for on two of four sides.
    if x < 0 or y < 0 or x + width > grid_width or y + height >= grid_height:
        return False
    for k in range(placed - 1):
        apart = (
            x + width < rooms[k, X]
            or rooms[k, X] + rooms[k, WIDTH] <= x
            or y + height < rooms[k, Y]
            or rooms[k, Y] + rooms[k, HEIGHT] <= y
        )
        if not apart:
            return False
    rooms[placed, X], rooms[placed, Y] = x, y
    rooms[placed, WIDTH], rooms[placed, HEIGHT] = width, height
    rooms[placed, DOOR_X], rooms[placed, DOOR_Y] = door_x, door_y
    return True
