"""KeyCorridor: a ball behind a locked door, its key in a room on the other side of a corridor."""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import EMPTY_CELL, LEFT, UP
from bebold.gridworld.placement import ball_cell, horizontal_line, inside_frame, key_cell, random_color
from bebold.gridworld.random import integers
from bebold.gridworld.rooms import (
    add_door,
    build_rooms,
    connect,
    connect_all,
    place_agent_in_room,
    place_in_room,
)
from bebold.jit import jit

COLUMNS = 3


@jit
def generate(mask, parameters, cells, agent, target, obstacles, rng):
    """Draw levels; parameters: room size, rows."""
    door_position = np.empty((COLUMNS, parameters[1], 4, 2), dtype=np.int64)
    connected = np.empty((COLUMNS, parameters[1], 4), dtype=np.bool_)
    for b in range(mask.shape[0]):
        if mask[b]:
            target[b] = _generate(rng[b], inside_frame(cells[b]), agent[b], parameters[0], door_position, connected)


@jit
def _generate(rng, grid, agent, room_size, door_position, connected):
    rows = connected.shape[1]
    build_rooms(rng, grid, agent, room_size, door_position, connected)
    for j in range(1, rows):
        horizontal_line(grid, room_size, j * (room_size - 1), room_size - 2, EMPTY_CELL)
        connect(connected, 1, j, UP)
    locked_row = integers(rng, 0, rows)
    door_color = random_color(rng)
    add_door(grid, door_position, connected, 2, locked_row, LEFT, door_color, True)
    ball = ball_cell(random_color(rng))
    place_in_room(rng, grid, agent, room_size, 2, locked_row, ball)
    key_row = integers(rng, 0, rows)
    place_in_room(rng, grid, agent, room_size, 0, key_row, key_cell(door_color))
    place_agent_in_room(rng, grid, agent, room_size, 1, rows // 2)
    connect_all(rng, grid, agent, room_size, door_position, connected, 2, locked_row)
    return ball
