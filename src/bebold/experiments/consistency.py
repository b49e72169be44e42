"""Asymptotic consistency (the paper's Section 4): whether a bonus vanishes once there is nothing new to find.

β does not fall in these runs: what is left of the bonus then still pulls at the policy.
"""

from __future__ import annotations

from dataclasses import replace

from bebold.config import IntrinsicConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short

STEPS = 8_000_000
"""Long after BeBold has solved them."""
METHODS = {"KCS3R3": ("bebold", "episodic", "ride", "amigo"), "MRN7S8": ("bebold", "episodic")}
"""The paper's three, and BeBold's restriction alone, which never tires: what it pays is what novelty took away.
RIDE and AMIGo did not learn MultiRoom with an Adam ε of 1e-5."""

_RUNS = tuple(
    TrainConfig(
        task=task,
        method=method,
        label=f"{method}-long",
        seed=seed,
        total_steps=STEPS,
        workers=1,
        intrinsic=IntrinsicConfig(coefficient_decay="none"),
    )
    for seed in REPORTED_SEEDS[:2]
    for task, methods in METHODS.items()
    for method in methods
)

CONSISTENCY = Experiment(
    "consistency",
    "What is left of the bonus long after the task is solved",
    _RUNS,
    tuple(
        cut_short(replace(run, num_envs=64)) for run in _RUNS if (run.task, run.seed) == ("KCS3R3", REPORTED_SEEDS[0])
    ),
    metrics={
        "bonus_per_step": (("intrinsic/reward_mean",), "mean bonus per step, before β"),
        "bonus_per_episode": (
            ("intrinsic/reward_mean", "charts/episodic_length"),
            "bonus per step × length of episodes, before β",
        ),
    },
)
