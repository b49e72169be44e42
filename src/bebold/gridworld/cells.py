"""The code of a cell: one 32-bit integer that says all there is to know about it.

| bits  | meaning                                                             |
|-------|---------------------------------------------------------------------|
| 0-7   | object, 8-15 colour, 16-23 state: the three bytes Farama observes   |
| 24-27 | object inside a box (0: none), 28-30 its colour                     |
| 31    | the cell blocks sight                                               |
"""

from collections.abc import Iterator

import numpy as np

UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA, AGENT = range(11)
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(6)
OPEN, CLOSED, LOCKED = range(3)

# Farama draws a colour as an index into the colour names in alphabetical order.
BLUE_GREEN_GREY_PURPLE_RED_YELLOW = (BLUE, GREEN, GREY, PURPLE, RED, YELLOW)

OBSERVED_BITS = 0xFFFFFF
OPAQUE_BIT = 1 << 31

EMPTY_CELL = EMPTY
WALL_CELL = WALL | GREY << 8 | OPAQUE_BIT
GOAL_CELL = GOAL | GREEN << 8
LAVA_CELL = LAVA | RED << 8


def _loads() -> Iterator[int]:
    for color in range(6):
        yield from (KEY | color << 8, BALL | color << 8, BOX | color << 8)
        yield from (BOX | color << 8 | kind << 24 | inner << 28 for kind in (KEY, BALL) for inner in range(6))


def _doors() -> Iterator[int]:
    for color in range(6):
        yield DOOR | color << 8
        yield from (DOOR | color << 8 | state << 16 | OPAQUE_BIT for state in (CLOSED, LOCKED))


# Every code that a load, and that a cell, can have.
LOAD_CODES = np.array([*_loads()], dtype=np.uint32)
CELL_CODES = np.array([EMPTY_CELL, WALL_CELL, GOAL_CELL, LAVA_CELL, *_loads(), *_doors()], dtype=np.uint32)

RIGHT, DOWN, LEFT, UP = range(4)
STEP_X = (1, 0, -1, 0)
STEP_Y = (0, 1, 0, -1)
DIRECTION_X = np.array(STEP_X, dtype=np.int64)  # the same, for kernels
DIRECTION_Y = np.array(STEP_Y, dtype=np.int64)

# The grid is stored with a frame of walls as wide as the agent sees, so that no view needs a bounds check.
FRAME = 6
VIEW = 7
