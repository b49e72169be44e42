"""Every family against Farama's own environments, step by step, levels and generators included."""

from __future__ import annotations

import pytest

from bebold.gridworld import TASKS
from bebold.gridworld.lockstep import walk

# task: steps, environments, and what the walk must have seen at least.
WALKS = {
    "MiniGrid-MultiRoom-N2-S4-v0": (120, 8, {"successes": 5, "opened": 10, "timeouts": 1}),
    "MRN6": (250, 6, {"successes": 1, "opened": 5}),
    "MRN7S8": (300, 6, {"successes": 1, "timeouts": 1}),
    "MRN12S10": (300, 3, {"opened": 20}),
    "MiniGrid-KeyCorridorS3R1-v0": (600, 4, {"successes": 4, "pickups": 20}),
    "KCS3R3": (600, 4, {"successes": 1, "pickups": 10}),
    "KCS4R3": (600, 4, {"successes": 1, "pickups": 10}),
    "MiniGrid-ObstructedMaze-1Dl-v0": (700, 4, {"successes": 4, "pickups": 20}),
    "OM2Dlhb": (700, 4, {"successes": 1, "pickups": 20, "opened": 5}),
    "OM2Dlhb-v1": (700, 4, {"successes": 1, "pickups": 20, "opened": 5}),
    "OMFull": (800, 3, {"pickups": 20, "opened": 10}),
    "MiniGrid-Empty-Random-5x5-v0": (300, 4, {"successes": 5}),
    "MiniGrid-FourRooms-v0": (220, 4, {"successes": 4}),
    "MiniGrid-DoorKey-6x6-v0": (700, 4, {"successes": 4, "pickups": 10, "opened": 10}),
    "MiniGrid-RedBlueDoors-6x6-v0": (400, 4, {"successes": 4, "failures": 4}),
    "MiniGrid-LavaGapS6-v0": (400, 4, {"successes": 4, "failures": 4}),
    "MiniGrid-LavaCrossingS9N3-v0": (400, 4, {"successes": 1, "failures": 4}),
    "MiniGrid-SimpleCrossingS11N5-v0": (400, 4, {"successes": 1}),
    "MiniGrid-Dynamic-Obstacles-5x5-v0": (300, 8, {"successes": 3, "failures": 20}),
    "MiniGrid-Dynamic-Obstacles-Random-6x6-v0": (300, 8, {"successes": 3, "failures": 20}),
}


@pytest.mark.parametrize("task", WALKS)
def test_equals_farama_step_by_step(task: str) -> None:
    steps, envs, seen = WALKS[task]
    report = walk(task, range(100, 100 + envs), steps)
    assert not report.differences
    for what, at_least in seen.items():
        assert getattr(report, what) >= at_least, f"the walk is too shallow: {report}"


@pytest.mark.parametrize("task", [task.id for task in TASKS if task.id not in WALKS and task.short not in WALKS])
def test_starts_like_farama(task: str) -> None:
    assert not walk(task, range(7000, 7006), steps=25).differences
