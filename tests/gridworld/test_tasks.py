"""The table of tasks against Farama's registry, and the names by which tasks are found."""

from __future__ import annotations

import pickle
import subprocess
import sys

import gymnasium
import pytest

from bebold.errors import UsageError
from bebold.gridworld import TASKS, UnknownTask, find_task, make_farama, multi_room

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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("KCS4R4", "KCS4R3"),
        ("kcs4r3", "KCS4R3"),
        ("MiniGrid-KeyCoridorS4R3-v0", "MiniGrid-KeyCorridorS4R3-v0"),
        ("nonsense", "bebold tasks"),
        ("", "bebold tasks"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(name: str, hint: str) -> None:
    with pytest.raises(UnknownTask, match=hint) as error:
        find_task(name)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, UsageError)


def test_multi_room_of_any_size() -> None:
    from bebold.gridworld.lockstep import walk

    assert not walk(multi_room(3, 7), range(4), steps=70).differences
    with pytest.raises(ValueError, match="at least 1 room"):
        multi_room(0, 7)


def test_importing_the_package_is_light() -> None:
    heavy = "numba", "torch", "minigrid"
    script = f"import sys, bebold, bebold.gridworld; print(*(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
