"""Dynamic-Obstacles, the paper's admitted failure: what its bonus makes of noise, and what mends it."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import EvaluationConfig, IntrinsicConfig, Key, PPOConfig, RNDConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short
from bebold.experiments.static import EVALUATIONS
from bebold.experiments.table2 import STEPS as STEPS_OF_TABLE2

STEPS = {"MiniGrid-Dynamic-Obstacles-5x5-v0": 500_000, "MiniGrid-Dynamic-Obstacles-8x8-v0": 1_000_000}
"""Environment steps of each run."""
KEPT = ("MRN7S8", "KCS3R3", "OM2Dlh")
"""A task of each family, on which a mend must keep what BeBold does."""
UNSCALED = PPOConfig(extrinsic_scale=1.0)
"""The reward as it is: a collision costs 1, as much as the bonus of two unseen places (α 0.5, β 1)."""
WHOLE_VIEW = RNDConfig(encoding="onehot")
"""The balls are in it, wherever they are."""


def counting(key: Key, alpha: float = 0.5) -> TrainConfig:
    """BeBold with n of the whole view and N_e of this key."""
    intrinsic = IntrinsicConfig(coefficient=1.0, alpha=alpha, key=key, rnd=WHOLE_VIEW)
    return TrainConfig(label=f"bebold-{key}", ppo=UNSCALED, intrinsic=intrinsic)


EQ3 = TrainConfig(
    label="bebold-eq3",
    ppo=replace(UNSCALED, entropy=5e-4),
    intrinsic=IntrinsicConfig(coefficient=0.1, alpha=1.0, key="observation", rnd=WHOLE_VIEW),
)
"""α, β, entropy coefficient and reward of the paper; learner, target network and all that falls are ours."""
OBSERVATION, POSE, POSITION = counting("observation"), counting("pose"), counting("position")
POSE_ALPHA = replace(counting("pose", alpha=1.0), label="bebold-pose-alpha1")
POSE_AVERAGED = replace(POSE, method="bebold-averaged", label="bebold-pose-averaged")
POSITION_SCALE = replace(POSITION, ppo=PPOConfig(), label="bebold-position-scale10")
POSITION_COUNT = replace(POSITION, method="bebold-count", label="bebold-position-count")
POSITION_EPISODIC = replace(POSITION, method="episodic", label="episodic-position")
OUTWEIGHING = 10.0
"""The β with which the bonus weighs as much beside the reward × 10 as β 1 does beside the reward as it is."""
MENDS = tuple(
    replace(
        arm,
        label=f"{arm.label}-beta10",
        ppo=PPOConfig(),
        intrinsic=replace(arm.intrinsic, coefficient=OUTWEIGHING),
    )
    for arm in (POSE, POSITION)
)
"""Those whose keys no ball changes, with the reward and the entropy coefficient of all other tasks, so that key, n and
β alone are changed."""
LARGE_BETA = TrainConfig(label="bebold-beta10", intrinsic=IntrinsicConfig(coefficient=OUTWEIGHING))
"""And β alone."""
ARMS = (
    TrainConfig(),
    TrainConfig(label="bebold-scale1", ppo=UNSCALED),
    TrainConfig(method="none", label="none-scale1", ppo=UNSCALED),
    EQ3,
    OBSERVATION,
    POSE,
    POSE_ALPHA,
    POSE_AVERAGED,
    POSITION,
    POSITION_SCALE,
    POSITION_COUNT,
    POSITION_EPISODIC,
    TrainConfig(method="none"),
    LARGE_BETA,
    *MENDS,
)
"""BeBold as on all other tasks; with the reward as it is; no bonus; Eq. 3. Then what N_e counts: observations, poses,
positions. Poses with α 1, and with novelty averaged over outcomes. Positions with the reward × 10, with n = 1/N of
positions, which no ball changes, and with n = 1, all at β 1. Then all with the reward × 10: no bonus, BeBold with β 10,
poses and positions with β 10."""
KEEPING = (TrainConfig(), *(replace(arm, stop_when_solved=True) for arm in (LARGE_BETA, *MENDS)))
"""Runs on `KEPT`: BeBold's own, and until they are solved those with another key or β."""

_RUNS = tuple(
    replace(arm, task=task, seed=seed, total_steps=steps, workers=1, evaluation=EvaluationConfig(interval=interval))
    for arms, tasks, seeds in (
        (ARMS, [(task, steps, steps // EVALUATIONS) for task, steps in STEPS.items()], REPORTED_SEEDS[:3]),
        (KEEPING, [(k, STEPS_OF_TABLE2[k], 250_000) for k in KEPT], REPORTED_SEEDS[:2]),
    )
    for seed in seeds
    for arm in arms
    for task, steps, interval in tasks
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
