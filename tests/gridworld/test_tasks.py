"""The table of tasks against Farama's registry, and the names by which tasks are found."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys

import gymnasium
import pytest

from bebold.errors import UsageError
from bebold.gridworld import TASKS, MiniGridVectorEnv, UnknownTask, find_task, make_farama, multi_room
from bebold.gridworld.cells import DOOR
from bebold.gridworld.tasks import MOST_ROOMS, repaired_task

FAMILIES = [
    "MultiRoom",
    "KeyCorridor",
    "ObstructedMaze",
    "Empty",
    "FourRooms",
    "DoorKey",
    "RedBlueDoors",
    "LavaGap",
    "LavaCrossing",
    "SimpleCrossing",
    "Dynamic-Obstacles",
]
PAPER = [
    "MRN6",
    "MRN7S8",
    "MRN12S10",
    "KCS3R3",
    "KCS4R3",
    "KCS5R3",
    "KCS6R3",
    "OM2Dlh",
    "OM2Dlhb",
    "OM1Q",
    "OM2Q",
    "OMFull",
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_size_limit_and_actions_are_faramas(task) -> None:
    env = make_farama(task).unwrapped
    assert (env.width, env.height, env.max_steps) == (task.width, task.height, task.max_steps)
    assert env.action_space.n == task.num_actions
    assert env.see_through_walls == task.see_through_walls


def test_every_upstream_id_of_these_families_is_there() -> None:
    import minigrid  # noqa: F401 (registers its ids)

    upstream = {id for id in gymnasium.registry if id.startswith(tuple(f"MiniGrid-{name}" for name in FAMILIES))}
    assert {task.id for task in TASKS} == upstream | {
        "MiniGrid-MultiRoom-N7-S8-v0",
        "MiniGrid-MultiRoom-N12-S10-v0",
    }


def test_tasks_are_found_by_every_name() -> None:
    for task in TASKS:
        names = {task.id, f"bebold/{task.id}"} | ({task.short, f"bebold/{task.short}"} if task.short else set())
        assert all(find_task(name) is task for name in names)
    assert {task.short for task in TASKS if task.short and not task.short.endswith("-v1")} == set(PAPER)
    assert find_task("OM2Dlhb").id == "MiniGrid-ObstructedMaze-2Dlhb-v0"
    assert find_task("OM2Dlhb-v1").id == "MiniGrid-ObstructedMaze-2Dlhb-v1"
    assert find_task("MRN12S10").max_steps == 240
    assert pickle.loads(pickle.dumps(TASKS)) == TASKS  # workers are sent their task


def test_the_repaired_task_of_each() -> None:
    found = {}
    for task in TASKS:
        with contextlib.suppress(UsageError):
            found[task.short] = repaired_task(task.id).short
    assert found == {
        "OM2Dlhb": "OM2Dlhb-v1",
        "OM1Q": "OM1Q-v1",
        "OM2Q": "OM2Q-v1",
        "OMFull": "OMFull-v1",
    }


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("OM2Dlh", "OM2Dlh: no ball blocks a door there"),
        ("MiniGrid-MultiRoom-N4-S5-v0", "MiniGrid-MultiRoom-N4-S5-v0: no ball blocks a door there"),
        ("OMFull-v1", "OMFull-v1: it is the repaired one"),
        ("MiniGrid-ObstructedMaze-1Dlhb-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0: Farama has no -v1 of it"),
    ],
)
def test_what_cannot_be_repaired(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"no repaired levels of {why}; judge it without --repaired"):
        repaired_task(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("KCS4R4", "KCS4R3"),
        ("kcs4r3", "KCS4R3"),
        ("MiniGrid-KeyCoridorS4R3-v0", "MiniGrid-KeyCorridorS4R3-v0"),
        ("nonsense", "bebold tasks"),
        ("MiniGrid-MultiRoom-N07-S8-v0", "MiniGrid-MultiRoom-N7-S8-v0"),
        ("MiniGrid-MultiRoom-N5-S7-v2", "MiniGrid-MultiRoom"),
        (f"MiniGrid-MultiRoom-N{'9' * 5000}-S8-v0", "bebold tasks"),
        ("", "bebold tasks"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(name: str, hint: str) -> None:
    with pytest.raises(UnknownTask, match=hint) as error:
        find_task(name)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, UsageError)


@pytest.mark.parametrize("size", [(3, 7), (1, 23), (4, 5), (6, 5), (14, 6)])
def test_multi_room_of_any_size_is_faramas(size: tuple[int, int]) -> None:
    from bebold.gridworld.lockstep import walk

    assert not walk(multi_room(*size), range(4), steps=70).differences


@pytest.mark.parametrize("largest", MOST_ROOMS)
def test_a_multi_room_is_found_by_its_id_everywhere(largest: int) -> None:
    for rooms in range(1, MOST_ROOMS[largest] + 1):
        task = multi_room(rooms, largest)
        assert find_task(task.id) is task or find_task(task.id) == task
        assert find_task(f"bebold/{task.id}") == task
        numbers = dict(task.parameters)
        assert numbers == {"fewest_rooms": rooms, "most_rooms": rooms, "largest_room": largest}
        assert gymnasium.registry[f"bebold/{task.id}"].kwargs == {"task": task.id}
    env = make_farama(task).unwrapped
    assert (env.minNumRooms, env.maxNumRooms, env.maxRoomSize, env.max_steps) == (rooms, rooms, largest, 20 * rooms)


def test_a_multi_room_that_upstream_knows_is_upstreams() -> None:
    assert multi_room(7, 8) is find_task("MRN7S8")
    assert multi_room(4, 5) is find_task("MiniGrid-MultiRoom-N4-S5-v1")  # upstream's -v0 has six rooms
    assert multi_room(6, 5).id == "MiniGrid-MultiRoom-N6-S5-v0"


def test_gymnasium_makes_a_multi_room_of_any_size() -> None:
    envs = gymnasium.make_vec("bebold/MiniGrid-MultiRoom-N5-S7-v0", num_envs=3)
    assert envs.task == multi_room(5, 7)
    assert envs.reset(seed=0)[0]["image"].shape == (3, 7, 7, 3)


@pytest.mark.parametrize("largest", [4, 10, 23])
def test_levels_with_as_many_rooms_as_allowed_are_drawn(largest: int) -> None:
    rooms = MOST_ROOMS[largest]
    envs = MiniGridVectorEnv(multi_room(rooms, largest), 1)
    envs.reset(seed=0)
    cells, *_ = envs.peek(0)
    assert (cells & 0xFF == DOOR).sum() == rooms - 1


@pytest.mark.parametrize(
    ("rooms", "largest", "message"),
    [
        (0, 7, "1 to 19 rooms, not 0"),
        (20, 7, "1 to 19 rooms, not 20"),
        (9999, 4, "1 to 29 rooms, not 9999"),
        (2, 3, "4 to 23 cells a side, not 3"),
        (2, 24, "4 to 23 cells a side, not 24"),
    ],
)
def test_a_multi_room_that_cannot_be_is_refused(rooms: int, largest: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        multi_room(rooms, largest)
    if rooms:
        with pytest.raises(UsageError, match=message):
            find_task(f"MiniGrid-MultiRoom-N{rooms}-S{largest}-v0")


def test_importing_the_package_is_light() -> None:
    heavy = "numba", "torch", "minigrid"
    script = f"import sys, bebold, bebold.gridworld; print(*(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
