"""Asymptotic consistency (the paper's Section 4): whether a bonus vanishes once there is nothing new to find.

β does not fall in these runs, so what is left of the bonus still pulls at the policy. With β it is in the units in
which solving the task earns about 9, whatever a method counts in.
"""

from __future__ import annotations

from dataclasses import replace

from bebold.config import AMIGoConfig, IntrinsicConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short

EASY = "MiniGrid-KeyCorridorS3R1-v0"
STEPS = {"KCS3R3": 6_000_000, "MRN7S8": 6_000_000, EASY: 4_000_000}
"""Environment steps of each run: long after BeBold has solved the task."""
LASTING = IntrinsicConfig(coefficient_decay="none")
ARMS = tuple(
    TrainConfig(method=method, label=f"{method}-long", intrinsic=LASTING) for method in ("bebold", "episodic", "ride")
)
"""Two of the paper's three, and BeBold's restriction alone, which never tires: what it pays is what novelty took
away."""
JUDGED = replace(LASTING, amigo=AMIGoConfig(solved_reward=None))
EASY_ARMS = (
    TrainConfig(method="amigo", label="amigo-long", intrinsic=LASTING),
    TrainConfig(method="amigo", label="amigo-judged-long", intrinsic=JUDGED),
)
"""AMIGo learns the smallest KeyCorridor alone, where even chance finds the ball: as everywhere here, and with a teacher
whose goals are judged where the task was solved, too."""

_RUNS = tuple(
    replace(arm, task=task, seed=seed, total_steps=steps, workers=1)
    for seed in REPORTED_SEEDS[:2]
    for task, steps in STEPS.items()
    for arm in (ARMS + EASY_ARMS if task == EASY else ARMS)
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
