"""The walls and rooms of one level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from bebold.gridworld.cells import DOOR, WALL
from bebold.gridworld.tasks import Task
from bebold.gridworld.vector import MiniGridVectorEnv


@dataclass(frozen=True)
class Layout:
    """One level of `H` rows and `W` columns; arrays index `[y, x]`."""

    walls: np.ndarray
    """bool `[H, W]`."""
    room: np.ndarray
    """int8 `[H, W]`: which room, counted along the doors from the one where the agent starts; -1: none."""

    @property
    def num_rooms(self) -> int:
        """`R`."""
        return int(self.room.max()) + 1


def layout(task: str | Task, level: int) -> Layout:
    """The level of `reset(seed=level)`. Rooms are what walls and doors part from each other.

    Places that no way leads to, such as those outside a MultiRoom, are of no room; nor are doors.
    """
    envs = MiniGridVectorEnv(task, fixed_seed=level)
    envs.reset()
    cells, (x, y, _), _, _ = envs.peek(0)
    kinds = cells.T & 0xFF
    walls, doors = kinds == WALL, kinds == DOOR
    regions, _ = ndimage.label(~(walls | doors))
    known = [int(regions[y, x])]
    for region in known:  # grows while rooms are found
        beside = ndimage.binary_dilation(regions == region) & doors
        for door_y, door_x in np.argwhere(beside):
            here = np.zeros_like(doors)
            here[door_y, door_x] = True
            around = np.unique(regions[ndimage.binary_dilation(here) & (regions > 0)])
            known += [int(other) for other in around if other not in known]
    room = np.full(regions.shape, -1, np.int8)
    for index, region in enumerate(known):
        room[regions == region] = index
    return Layout(walls, room)
