"""Every family against Farama's own environments, step by step, levels and generators included."""

from __future__ import annotations

import pytest

from bebold.gridworld.lockstep import walk

# task: steps, seeds, and what the walk must have seen at least.
WALKS = {
    "MiniGrid-MultiRoom-N2-S4-v0": (120, 8, {"successes": 5, "opened": 10}),
    "MRN6": (150, 4, {"opened": 5}),
    "MRN7S8": (170, 4, {"opened": 5}),
    "MRN12S10": (260, 2, {"opened": 5}),
    "MiniGrid-KeyCorridorS3R1-v0": (600, 4, {"successes": 4, "pickups": 20}),
    "KCS3R3": (600, 4, {"successes": 1, "pickups": 10}),
    "KCS4R3": (600, 4, {"pickups": 10, "opened": 20}),
    "KCS6R3": (200, 4, {"opened": 5}),
}


@pytest.mark.parametrize("task", WALKS)
def test_equals_farama_step_by_step(task: str) -> None:
    steps, envs, seen = WALKS[task]
    report = walk(task, range(100, 100 + envs), steps)
    assert not report.differences
    for what, at_least in seen.items():
        assert getattr(report, what) >= at_least, f"the walk is too shallow: {report}"
