"""Every family against Farama's own environments, step by step, levels and generators included."""

from __future__ import annotations

from typing import Any

import pytest

from bebold.gridworld import TASKS, lockstep
from bebold.gridworld.lockstep import Pair, walk

# task: steps, environments, and what the walk must have seen at least.
WALKS = {
    "MiniGrid-MultiRoom-N2-S4-v0": (120, 8, {"successes": 30, "timeouts": 4, "opened": 30}),
    "MRN6": (250, 6, {"successes": 5, "timeouts": 4, "opened": 50}),
    "MRN7S8": (300, 6, {"successes": 5, "timeouts": 4, "opened": 50}),
    "MRN12S10": (300, 3, {"successes": 1, "timeouts": 1, "opened": 20}),
    "MiniGrid-KeyCorridorS3R1-v0": (600, 4, {"successes": 20, "timeouts": 4, "pickups": 50}),
    "KCS3R3": (600, 4, {"successes": 10, "timeouts": 4, "pickups": 30}),
    "KCS4R3": (600, 4, {"successes": 10, "timeouts": 4, "pickups": 20}),
    "MiniGrid-ObstructedMaze-1Dl-v0": (700, 4, {"successes": 20, "timeouts": 4, "pickups": 50}),
    "OM2Dlhb": (700, 4, {"successes": 8, "timeouts": 3, "pickups": 50, "opened": 20}),
    "OM2Dlhb-v1": (700, 4, {"successes": 8, "timeouts": 3, "pickups": 50, "opened": 20}),
    "OM1Q": (500, 4, {"successes": 5, "timeouts": 2, "pickups": 40, "opened": 20}),
    "OM2Q-v1": (500, 4, {"successes": 5, "timeouts": 2, "pickups": 40, "opened": 20}),
    "OMFull": (800, 3, {"successes": 8, "timeouts": 2, "pickups": 40, "opened": 30}),
    "OMFull-v1": (800, 3, {"successes": 8, "timeouts": 2, "pickups": 40, "opened": 30}),
    "MiniGrid-Empty-Random-5x5-v0": (300, 4, {"successes": 50, "timeouts": 2}),
    "MiniGrid-FourRooms-v0": (220, 4, {"successes": 10, "timeouts": 2}),
    "MiniGrid-DoorKey-6x6-v0": (700, 4, {"successes": 40, "timeouts": 4, "pickups": 50, "opened": 50}),
    "MiniGrid-RedBlueDoors-6x6-v0": (400, 4, {"successes": 10, "failures": 10, "timeouts": 3}),
    "MiniGrid-LavaGapS6-v0": (400, 4, {"successes": 40, "failures": 8, "timeouts": 2}),
    "MiniGrid-LavaCrossingS9N3-v0": (400, 4, {"successes": 20, "failures": 15, "timeouts": 1}),
    "MiniGrid-SimpleCrossingS11N5-v0": (400, 4, {"successes": 20, "timeouts": 4}),
    "MiniGrid-Dynamic-Obstacles-5x5-v0": (300, 8, {"successes": 10, "failures": 100, "timeouts": 2}),
    "MiniGrid-Dynamic-Obstacles-Random-6x6-v0": (300, 8, {"successes": 30, "failures": 100, "timeouts": 1}),
}


@pytest.mark.parametrize("task", WALKS)
def test_equals_farama_step_by_step(task: str) -> None:
    steps, envs, seen = WALKS[task]
    report = walk(task, range(100, 100 + envs), steps, view_every=1)
    assert not report.differences
    assert report.views == report.steps + report.levels  # each level's first view, and one a step
    for what, at_least in seen.items():
        assert getattr(report, what) >= at_least, f"the walk is too shallow: {report}"


@pytest.mark.parametrize("task", [task.id for task in TASKS if task.id not in WALKS and task.short not in WALKS])
def test_starts_like_farama(task: str) -> None:
    assert not walk(task, range(7000, 7006), steps=25, view_every=1).differences


def reward(env: Any) -> float:
    return 1 - 0.9 * (env.step_count / env.max_steps)


def test_whole_episodes_run_out_of_time_like_faramas() -> None:
    report = walk("KCS3R3", range(3), 3 * 270 + 3, knowing=0.0, late=0.0)
    assert not report.differences
    assert report.timeouts >= 3


def test_a_clock_set_back_prolongs_the_stay_in_a_level() -> None:
    stays, goes = (walk("MRN6", range(3), 400, knowing=0.0, late=0.0, again=again) for again in (1.0, 0.0))
    assert not stays.differences
    assert stays.timeouts == 0 < goes.timeouts
    assert stays.levels < goes.levels


@pytest.mark.parametrize(
    ("place", "fault", "field"),
    [
        ("minigrid.minigrid_env:MiniGridEnv._reward", reward, None),
        ("minigrid.minigrid_env:MiniGridEnv._reward", lambda env: 0.99 * reward(env), "reward"),
        ("minigrid.minigrid_env:MiniGridEnv._reward", lambda env: reward(env) + 0 * env._rand_int(0, 9), "generators"),
        ("minigrid.core.world_object:Key.can_pickup", lambda key: False, "carried"),
        ("minigrid.core.world_object:Door.toggle", lambda door, env, at: True, "cells"),
        ("minigrid.core.world_object:Door.can_overlap", lambda door: False, "agent"),
        ("minigrid.core.world_object:Ball.see_behind", lambda ball: False, "image"),
        ("minigrid.minigrid_env:MiniGridEnv._rand_bool", lambda env: True, None),
    ],
)
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch, place: str, fault: object, field: str | None) -> None:
    """Changes of Farama's classes; two of them change nothing that is played."""
    monkeypatch.setattr(place.replace(":", "."), fault)
    differences = walk("KCS4R3", range(4), 200).differences
    assert field in differences if field else not differences


def test_another_limit_is_found() -> None:
    pair = Pair("KCS3R3", 2)
    pair.theirs[0].env.max_steps += 1
    assert pair.walk(range(2), 300)
    assert pair.walk(range(2), 300).differences["truncated"] > 0


def test_another_full_grid_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lockstep.farama_full_grid
    monkeypatch.setattr(lockstep, "farama_full_grid", lambda env: real(env) ^ 1)
    assert walk("KCS3R3", range(2), 10).differences.keys() == {"grid"}
