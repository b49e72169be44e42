"""Rooms of one size in rows and columns, joined by doors: the ground of KeyCorridor and ObstructedMaze.

Rooms are addressed by column `i` and row `j`; walls and doors are ordered right, down, left, up.

- `door_position` int64 [columns, rows, 4, 2]: where a door in each wall of each room would stand;
- `connected` bool [columns, rows, 4]: a door, or no wall, leads to the neighbour.
"""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import DIRECTION_X, DIRECTION_Y, DOWN, EMPTY_CELL, LEFT, RIGHT, UP, WALL
from bebold.gridworld.placement import (
    door_cell,
    free_position,
    place_agent,
    random_color,
    wall_rectangle,
)
from bebold.gridworld.random import integers
from bebold.jit import jit


@jit
def has_neighbour(i, j, wall, columns, rows):
    """Whether a room has another one behind a wall."""
    x, y = i + DIRECTION_X[wall], j + DIRECTION_Y[wall]
    return 0 <= x < columns and 0 <= y < rows


@jit
def build_rooms(rng, grid, agent, room_size, door_position, connected):
    """Draw all walls and choose where doors may stand; the agent waits in the middle of the middle room."""
    columns, rows = connected.shape[0], connected.shape[1]
    pitch = room_size - 1
    grid[:] = EMPTY_CELL
    connected[:] = False
    for j in range(rows):
        for i in range(columns):
            wall_rectangle(grid, i * pitch, j * pitch, room_size, room_size)
    for j in range(rows):
        for i in range(columns):
            left, top = i * pitch, j * pitch
            if i < columns - 1:
                y = integers(rng, top + 1, top + pitch)
                door_position[i, j, RIGHT] = door_position[i + 1, j, LEFT] = (left + pitch, y)
            if j < rows - 1:
                x = integers(rng, left + 1, left + pitch)
                door_position[i, j, DOWN] = door_position[i, j + 1, UP] = (x, top + pitch)
    agent[0] = (columns // 2) * pitch + room_size // 2
    agent[1] = (rows // 2) * pitch + room_size // 2
    agent[2] = RIGHT


@jit
def connect(connected, i, j, wall):
    """Note that a room and its neighbour behind `wall` are joined."""
    connected[i, j, wall] = True
    connected[i + DIRECTION_X[wall], j + DIRECTION_Y[wall], (wall + 2) % 4] = True


@jit
def add_door(grid, door_position, connected, i, j, wall, color, locked):
    """Put a door in a wall of room (i, j)."""
    grid[door_position[i, j, wall, 0], door_position[i, j, wall, 1]] = door_cell(color, locked)
    connect(connected, i, j, wall)


@jit
def place_in_room(rng, grid, agent, room_size, i, j, code):
    """Put an object on a random empty cell of room (i, j), not where the agent waits nor next to it."""
    pitch = room_size - 1
    x, y = free_position(rng, grid, agent, i * pitch, j * pitch, room_size, room_size, 2)
    grid[x, y] = code


@jit
def place_agent_in_room(rng, grid, agent, room_size, i, j):
    """Put the agent into room (i, j), facing an empty cell or a wall."""
    pitch = room_size - 1
    while True:
        place_agent(rng, grid, agent, i * pitch, j * pitch, room_size, room_size)
        front = np.int64(grid[agent[0] + DIRECTION_X[agent[2]], agent[1] + DIRECTION_Y[agent[2]]])
        if front == EMPTY_CELL or front & 0xFF == WALL:
            return


@jit
def all_reachable(connected, start_i, start_j):
    """Whether every room can be reached from one of them, locked doors counting as ways."""
    columns, rows = connected.shape[0], connected.shape[1]
    reached = 1 << (start_j * columns + start_i)
    grown = True
    while grown:
        grown = False
        for j in range(rows):
            for i in range(columns):
                if reached >> (j * columns + i) & 1:
                    for wall in range(4):
                        if connected[i, j, wall]:
                            other = (j + DIRECTION_Y[wall]) * columns + i + DIRECTION_X[wall]
                            if not reached >> other & 1:
                                reached |= 1 << other
                                grown = True
    return reached == (1 << (columns * rows)) - 1


@jit
def connect_all(rng, grid, agent, room_size, door_position, connected, locked_i, locked_j):
    """Add unlocked doors at random until every room can be reached; the locked room gets none."""
    columns, rows = connected.shape[0], connected.shape[1]
    start_i, start_j = agent[0] // (room_size - 1), agent[1] // (room_size - 1)
    while not all_reachable(connected, start_i, start_j):
        i = integers(rng, 0, columns)
        j = integers(rng, 0, rows)
        wall = integers(rng, 0, 4)
        if not has_neighbour(i, j, wall, columns, rows) or connected[i, j, wall]:
            continue
        if i == locked_i and j == locked_j:
            continue
        if i + DIRECTION_X[wall] == locked_i and j + DIRECTION_Y[wall] == locked_j:
            continue
        add_door(grid, door_position, connected, i, j, wall, random_color(rng), False)
