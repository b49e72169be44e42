"""LavaCrossing and SimpleCrossing: rivers of lava, or walls, across the room, each with an opening."""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import EMPTY_CELL, LAVA_CELL, WALL_CELL
from bebold.gridworld.levels.empty import build_empty_room
from bebold.gridworld.placement import horizontal_line, inside_frame, vertical_line
from bebold.gridworld.random import integers, shuffle
from bebold.jit import jit


@jit
def generate(mask, parameters, cells, agent, target, obstacles, rng):
    """Draw levels; parameters: number of rivers, whether they are lava."""
    size = cells.shape[1]
    rivers = np.empty(size, dtype=np.int64)
    path = np.empty(size, dtype=np.bool_)
    code = LAVA_CELL if parameters[1] else WALL_CELL
    for b in range(mask.shape[0]):
        if mask[b]:
            _generate(rng[b], inside_frame(cells[b]), agent[b], parameters[0], code, rivers, path)
            target[b] = 0


@jit
def _generate(rng, grid, agent, num_rivers, code, rivers, path):
    size = grid.shape[0]
    build_empty_room(rng, grid, agent, False)

    # Candidates 0, 1, ... are the columns 2, 4, ... and then the rows 2, 4, ...
    per_way = (size - 3) // 2
    candidates = rivers[: 2 * per_way]
    for k in range(2 * per_way):
        candidates[k] = k
    shuffle(rng, candidates)
    chosen = candidates[:num_rivers]
    chosen.sort()
    columns = np.searchsorted(chosen, per_way)
    for k in range(num_rivers):
        if k >= columns:
            horizontal_line(grid, 1, _place(chosen[k], per_way), size - 2, code)
    for k in range(columns):
        vertical_line(grid, _place(chosen[k], per_way), 1, size - 2, code)

    # The way to the goal crosses the columns going right and the rows going down, in random order.
    crosses_column = path[:num_rivers]
    for k in range(num_rivers):
        crosses_column[k] = k < columns
    shuffle(rng, crosses_column)
    column, row = 0, columns
    left, top = 0, 0
    for k in range(num_rivers):
        right = _place(chosen[column], per_way) if column < columns else size - 1
        bottom = _place(chosen[row], per_way) if row < num_rivers else size - 1
        if crosses_column[k]:
            grid[right, integers(rng, top + 1, bottom)] = EMPTY_CELL
            left = right
            column += 1
        else:
            grid[integers(rng, left + 1, right), bottom] = EMPTY_CELL
            top = bottom
            row += 1


@jit
def _place(candidate, per_way):
    """Column or row of a candidate river."""
    return 2 + 2 * (candidate % per_way)
