"""Dynamic-Obstacles: an empty room in which balls move about; to walk into one ends the episode at -1."""

from __future__ import annotations

from bebold.gridworld.cells import BLUE, DIRECTION_X, DIRECTION_Y, EMPTY_CELL, FRAME, GOAL
from bebold.gridworld.kernels import FORWARD, TURN_LEFT, set_cell
from bebold.gridworld.levels.empty import build_empty_room
from bebold.gridworld.placement import ball_cell, free_position, inside_frame
from bebold.gridworld.random import integers
from bebold.jit import jit

TRIES_TO_MOVE = 101


@jit
def generate(mask, parameters, cells, agent, target, obstacles, rng):
    """Draw levels; parameters: whether the agent starts anywhere, number of obstacles."""
    for b in range(mask.shape[0]):
        if mask[b]:
            grid = inside_frame(cells[b])
            width, height = grid.shape
            build_empty_room(rng[b], grid, agent[b], parameters[0] != 0)
            for k in range(obstacles.shape[1]):
                x, y = free_position(rng[b], grid, agent[b], 0, 0, width, height, 1)
                grid[x, y] = ball_cell(BLUE)
                obstacles[b, k] = (x, y)
            target[b] = 0


@jit
def before_step(actions, resetting, cells, agent, obstacles, grid_hash, rng, hits_obstacle):
    """Note which agents face a ball or a wall, then move every ball; unknown actions become a left turn."""
    for b in range(actions.shape[0]):
        if resetting[b]:
            continue
        if actions[b] > FORWARD:
            actions[b] = TURN_LEFT
        x = agent[b, 0] + DIRECTION_X[agent[b, 2]]
        y = agent[b, 1] + DIRECTION_Y[agent[b, 2]]
        front = cells[b, x + FRAME, y + FRAME]
        hits_obstacle[b] = front != EMPTY_CELL and front & 0xFF != GOAL
        for k in range(obstacles.shape[1]):
            _move(rng[b], cells[b], agent[b], obstacles[b, k], grid_hash, b)


@jit
def _move(rng, framed, agent, obstacle, grid_hash, b):
    """Move a ball to a random free cell among the nine around it; it stays if too many tries fail."""
    for _ in range(TRIES_TO_MOVE):
        x = integers(rng, obstacle[0] - 1, obstacle[0] + 2)
        y = integers(rng, obstacle[1] - 1, obstacle[1] + 2)
        if framed[x + FRAME, y + FRAME] == EMPTY_CELL and (x != agent[0] or y != agent[1]):
            set_cell(framed, grid_hash, b, x + FRAME, y + FRAME, ball_cell(BLUE))
            set_cell(framed, grid_hash, b, obstacle[0] + FRAME, obstacle[1] + FRAME, EMPTY_CELL)
            obstacle[0], obstacle[1] = x, y
            return
