"""Walls and rooms of a level, beside Farama's own."""

from __future__ import annotations

import numpy as np
import pytest

from bebold.gridworld.layout import layout
from bebold.gridworld.tasks import find_task, make_farama


@pytest.mark.parametrize("task", ["MRN7S8", "MRN6"])
@pytest.mark.parametrize("level", [0, 3, 2407])
def test_rooms_are_those_that_farama_drew_in_their_order(task: str, level: int) -> None:
    env = make_farama(find_task(task)).unwrapped
    env.reset(seed=level)
    found = layout(task, level)
    expected = np.full(found.room.shape, -1)
    for index, room in enumerate(env.rooms):
        (left, top), (width, height) = room.top, room.size
        expected[top + 1 : top + height - 1, left + 1 : left + width - 1] = index
    np.testing.assert_array_equal(found.room, expected)
    assert found.num_rooms == len(env.rooms)
    x, y = env.agent_pos
    assert found.room[y, x] == 0
    for y, x in np.ndindex(*found.walls.shape):
        thing = env.grid.get(x, y)
        assert found.walls[y, x] == (thing is not None and thing.type == "wall")


def test_things_lie_in_rooms_and_rooms_beyond_many_doors_are_found() -> None:
    env = make_farama(find_task("KCS3R3")).unwrapped
    env.reset(seed=4)
    found = layout("KCS3R3", 4)
    kinds = {kind: np.zeros(found.room.shape, bool) for kind in ("wall", "door", "key", "ball")}
    for y, x in np.ndindex(*found.room.shape):
        thing = env.grid.get(x, y)
        if thing is not None:
            kinds[thing.type][y, x] = True
    np.testing.assert_array_equal(found.room < 0, kinds["wall"] | kinds["door"])
    assert kinds["key"].any() and kinds["ball"].any()
    # Three rooms on each side of a corridor without doors in it.
    assert found.num_rooms == 7


def test_a_level_without_doors_is_one_room() -> None:
    found = layout("MiniGrid-Empty-5x5-v0", 0)
    assert found.num_rooms == 1
    np.testing.assert_array_equal(found.room[1:-1, 1:-1], 0)
