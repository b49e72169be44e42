"""Asymptotic consistency (the paper's Section 4): whether a bonus vanishes once there is nothing new to find.

β does not fall in these runs, so what is left of the bonus still pulls at the policy. With β it is in the units in
which solving the task earns about 9, whatever a method counts in.
"""

from __future__ import annotations

from dataclasses import replace

from bebold.config import IntrinsicConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short

EASY = "MiniGrid-KeyCorridorS3R1-v0"
STEPS = {"KCS3R3": 6_000_000, "MRN7S8": 6_000_000, EASY: 4_000_000}
"""Environment steps of each run: long after BeBold has solved the task."""
METHODS = ("bebold", "episodic", "ride", "amigo")
"""The paper's three, and BeBold's restriction alone, which never tires: what it pays is what novelty took away. AMIGo
learns the smallest KeyCorridor alone, where even chance finds the ball."""

_RUNS = tuple(
    TrainConfig(
        task=task,
        method=method,
        label=f"{method}-long",
        seed=seed,
        total_steps=steps,
        workers=1,
        intrinsic=IntrinsicConfig(coefficient_decay="none"),
    )
    for seed in REPORTED_SEEDS[:2]
    for task, steps in STEPS.items()
    for method in METHODS
    if method != "amigo" or task == EASY
)

CONSISTENCY = Experiment(
    "consistency",
    "What is left of the bonus long after the task is solved",
    _RUNS,
    tuple(cut_short(replace(run, num_envs=64)) for run in _RUNS if (run.task, run.seed) == (EASY, REPORTED_SEEDS[0])),
    metrics={
        "bonus_per_step": (("intrinsic/reward_mean", "intrinsic.coefficient"), "β × mean bonus per step"),
        "bonus_per_episode": (
            ("intrinsic/reward_mean", "intrinsic.coefficient", "charts/episodic_length"),
            "β × bonus per step × length of episodes",
        ),
    },
)
