"""ObstructedMaze: a blue ball behind locked doors, their keys hidden in boxes, the doors blocked by balls."""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import BLUE, DIRECTION_X, DIRECTION_Y, GREEN, GREY, RIGHT
from bebold.gridworld.placement import (
    ALPHABETICAL_COLORS,
    ball_cell,
    box_with_key_cell,
    inside_frame,
    key_cell,
)
from bebold.gridworld.random import integers
from bebold.gridworld.rooms import (
    add_door,
    build_rooms,
    place_agent_in_room,
    place_in_room,
)
from bebold.jit import jit

ROOM_SIZE = 6
CORNER_I = np.array((2, 2, 0, 0), dtype=np.int64)
CORNER_J = np.array((0, 2, 2, 0), dtype=np.int64)


@jit
def generate(mask, parameters, cells, agent, target, obstacles, rng):
    """Draw levels; parameters: columns, rows, agent's column and row, quarters (0: the two-room mazes), then
    whether keys are in boxes, doors are blocked, and the levels are the repaired ones.
    """
    columns, rows = parameters[0], parameters[1]
    door_position = np.empty((columns, rows, 4, 2), dtype=np.int64)
    connected = np.empty((columns, rows, 4), dtype=np.bool_)
    colors = np.empty(6, dtype=np.int64)
    for b in range(mask.shape[0]):
        if mask[b]:
            _generate(rng[b], inside_frame(cells[b]), agent[b], parameters, door_position, connected, colors)
            target[b] = ball_cell(BLUE)


@jit
def _generate(rng, grid, agent, parameters, door_position, connected, colors):
    agent_i, agent_j, quarters = parameters[2], parameters[3], parameters[4]
    key_in_box, blocked, repaired = parameters[5] != 0, parameters[6] != 0, parameters[7] != 0
    build_rooms(rng, grid, agent, ROOM_SIZE, door_position, connected)
    _draw_all_colors(rng, colors)
    if quarters == 0:
        _add_locked_door(grid, door_position, connected, 0, 0, RIGHT, colors[0], blocked)
        _add_key(rng, grid, agent, 0, 0, colors[0], key_in_box)
        ball_i, ball_j = 1, 0
    else:
        for side in range(quarters):
            _build_side_room(rng, grid, agent, door_position, connected, colors, side, key_in_box, blocked, repaired)
        corner = integers(rng, 0, quarters)
        ball_i, ball_j = CORNER_I[corner], CORNER_J[corner]
    place_in_room(rng, grid, agent, ROOM_SIZE, ball_i, ball_j, ball_cell(BLUE))
    place_agent_in_room(rng, grid, agent, ROOM_SIZE, agent_i, agent_j)


@jit
def _draw_all_colors(rng, colors):
    """Draw the six colours one after the other without putting any back."""
    colors[:] = ALPHABETICAL_COLORS
    for k in range(6):
        # The colours not drawn yet stay in alphabetical order behind those drawn.
        drawn = k + integers(rng, 0, 6 - k)
        color = colors[drawn]
        for later in range(drawn, k, -1):
            colors[later] = colors[later - 1]
        colors[k] = color


@jit
def _build_side_room(rng, grid, agent, door_position, connected, colors, side, key_in_box, blocked, repaired):
    """Join the room in direction `side` to the middle one, and lock its doors to the two corners beside it.

    In the v0 levels a blocking ball comes after the first key and may take the place of the box that hides
    it; the repaired levels place both keys after both balls.
    """
    i, j = 1 + DIRECTION_X[side], 1 + DIRECTION_Y[side]
    add_door(grid, door_position, connected, 1, 1, side, colors[side], False)
    for turn in (-1, 1):
        color = colors[(side + turn) % 6]
        _add_locked_door(grid, door_position, connected, i, j, (side + turn) % 4, color, blocked)
        if not repaired:
            _add_key(rng, grid, agent, i, j, color, key_in_box)
    if repaired:
        for turn in (-1, 1):
            _add_key(rng, grid, agent, i, j, colors[(side + turn) % 6], key_in_box)


@jit
def _add_locked_door(grid, door_position, connected, i, j, wall, color, blocked):
    add_door(grid, door_position, connected, i, j, wall, color, True)
    if blocked:
        x = door_position[i, j, wall, 0] - DIRECTION_X[wall]
        y = door_position[i, j, wall, 1] - DIRECTION_Y[wall]
        grid[x, y] = ball_cell(GREEN)


@jit
def _add_key(rng, grid, agent, i, j, color, in_box):
    code = box_with_key_cell(GREY, color) if in_box else key_cell(color)
    place_in_room(rng, grid, agent, ROOM_SIZE, i, j, code)
