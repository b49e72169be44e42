"""The paper's analysis of pure exploration: one level of MultiRoom-N7-S8, no reward but the bonus."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import EvaluationConfig, IntrinsicConfig, MapsConfig, PPOConfig, RNDConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS

METHODS = ("bebold", "rnd")

LEVEL = 2407
"""A level of MRN7S8 whose first four rooms have 12, 12, 18 and 8 places and whose others have at least 8. The
paper does not show which level it took; visited evenly these give 3.58, 3.58, 4.17 and 3 bits, just above the largest
entropies of its table: 3.56, 3.56, 4.02 and 2.87."""

MOMENTS = (200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 9_800_000)
"""Environment steps of the maps that are drawn: those of the paper's table, one between, and the last that it shows of
RND. BeBold's last, at 4.6 M, has the maps of 5 M in its place."""

_SETTINGS = TrainConfig(
    task="MRN7S8",
    fixed_level=LEVEL,
    total_steps=MOMENTS[-1],
    workers=1,
    # Nothing falls: there is no task that the end of a run should be left to, and how soon a room is found must not
    # depend on how long the run goes on afterwards.
    ppo=PPOConfig(extrinsic_scale=0.0, entropy=5e-4, learning_rate_decay="none", entropy_decay="none"),
    # The criterion as in Eq. 3 and the appendix: α 1, observations, and β 0.1 for BeBold and RND alike.
    intrinsic=IntrinsicConfig(
        coefficient=0.1,
        coefficient_decay="none",
        alpha=1.0,
        key="observation",
        rnd=RNDConfig(encoding="onehot"),
    ),
    # Held-out levels say nothing of an agent that knows one and seeks no goal.
    evaluation=EvaluationConfig(interval=0),
    maps=MapsConfig(interval=100_000),
)

RUNS = tuple(
    replace(_SETTINGS, method=method, label=f"{method}-explores", seed=seed)
    for seed in REPORTED_SEEDS[:3]
    for method in METHODS
)
"""Method by method beside each other, so that a seed is complete before the next is begun."""

SMOKE_MOMENTS = (2_000, 4_000, 8_000)

SMOKE = tuple(
    replace(run, num_envs=32, total_steps=8_000, maps=MapsConfig(interval=2_000, steps=200))
    for run in RUNS
    if run.seed == REPORTED_SEEDS[0]
)
