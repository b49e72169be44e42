"""Dynamic-Obstacles, the paper's admitted failure: what its bonus makes of noise, and what mends it."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import EvaluationConfig, IntrinsicConfig, PPOConfig, RNDConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short
from bebold.experiments.table2 import STEPS as STEPS_OF_TABLE2

STEPS = {"MiniGrid-Dynamic-Obstacles-5x5-v0": 500_000, "MiniGrid-Dynamic-Obstacles-8x8-v0": 1_000_000}
"""Environment steps of each run."""
PROGRESS = EvaluationConfig(interval=25_000)
KEPT = ("MRN7S8", "KCS3R3", "OM2Dlh")
"""A task of each family, on which a mend must keep what BeBold does."""

# n of the whole view, in which the balls move about; the task's own reward, of which -1 is the price of a collision.
_ONE = TrainConfig(
    ppo=PPOConfig(extrinsic_scale=1.0),
    intrinsic=IntrinsicConfig(coefficient=1.0, rnd=RNDConfig(encoding="onehot")),
)


def _with(label: str, key: str, **intrinsic: float) -> TrainConfig:
    return replace(_ONE, label=label, intrinsic=replace(_ONE.intrinsic, key=key, **intrinsic))  # type: ignore[arg-type]


PUBLISHED = TrainConfig(
    label="bebold-eq3",
    ppo=PPOConfig(extrinsic_scale=1.0, entropy=5e-4),
    intrinsic=IntrinsicConfig(coefficient=0.1, alpha=1.0, key="observation", rnd=RNDConfig(encoding="onehot")),
)
"""Eq. 3 of observations with the numbers of the paper's appendix."""
NONE = TrainConfig(method="none", label="none-scale1", ppo=PPOConfig(extrinsic_scale=1.0))
OBSERVATION = _with("bebold-observation", "observation")
POSE = _with("bebold-pose", "pose")
POSE_ALPHA = _with("bebold-pose-alpha1", "pose", alpha=1.0)
POSE_AVERAGED = replace(POSE, method="bebold-averaged", label="bebold-pose-averaged")
POSITION = _with("bebold-position", "position")
POSITION_SCALE = replace(POSITION, label="bebold-position-scale10", ppo=PPOConfig())
POSITION_COUNT = replace(POSITION, method="bebold-count", label="bebold-position-count")
POSITION_EPISODIC = replace(POSITION, method="episodic", label="episodic-position")
ARMS = (
    TrainConfig(method="bebold"),
    PUBLISHED,
    NONE,
    OBSERVATION,
    POSE,
    POSE_ALPHA,
    POSE_AVERAGED,
    POSITION,
    POSITION_SCALE,
    POSITION_COUNT,
    POSITION_EPISODIC,
)
"""BeBold as on all other tasks, and as published; no bonus; then one change after the other: what is the same state
(`observation`, `pose`, `position`), α, novelty averaged over outcomes, the reward's scale, counts in place of RND, and
no novelty at all."""

MENDS = tuple(
    TrainConfig(label=f"bebold-key-{key}", intrinsic=IntrinsicConfig(key=key))  # type: ignore[arg-type]
    for key in ("pose", "position")
)
"""The keys that the balls do not change, all else as BeBold is on the other tasks."""

_RUNS = tuple(
    replace(arm, task=task, seed=seed, total_steps=steps, workers=1, evaluation=evaluation)
    for arms, tasks, seeds, evaluation in (
        (ARMS, STEPS, REPORTED_SEEDS[:3], PROGRESS),
        ((TrainConfig(), *MENDS), {k: STEPS_OF_TABLE2[k] for k in KEPT}, REPORTED_SEEDS[:2], EvaluationConfig()),
    )
    for seed in seeds
    for arm in arms
    for task, steps in tasks.items()
)

DYNAMIC_OBSTACLES = Experiment(
    "dynamic-obstacles",
    "Obstacles that move at random",
    _RUNS,
    tuple(
        cut_short(replace(run, num_envs=64))
        for run in _RUNS
        if run.seed == REPORTED_SEEDS[0] and "5x5" in run.task and run.name in ("bebold", "bebold-pose-averaged")
    ),
)
