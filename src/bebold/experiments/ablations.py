"""The paper's ablations: what each part of the criterion does, on four of the tasks.

The parts are left out of the criterion with the paper's α of 1. With our 0.5 to stand still pays, which the restriction
alone forbids, and a first visit is rarely worth less than half of what was left, which is all that is clipped. Runs
stop when they are solved, but for those of Table 2: how soon that is tells the arms apart.
"""

from __future__ import annotations

from dataclasses import replace

from bebold.config import IntrinsicConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short
from bebold.experiments.table2 import run_of

TASKS = ("KCS4R3", "KCS5R3", "MRN7S8", "MRN12S10")


def _alpha1(method: str, coefficient: float) -> TrainConfig:
    """With the paper's α, and the β that was best for it on KCS3R3 and KCS4R3 (docs/research-log.md)."""
    return TrainConfig(
        method=method, label=f"{method}-alpha1", intrinsic=IntrinsicConfig(alpha=1.0, coefficient=coefficient)
    )


ARMS = (
    TrainConfig(method="bebold"),
    _alpha1("bebold", 3.0),
    _alpha1("bebold-no-clip", 3.0),
    _alpha1("bebold-no-episodic", 0.03),
    TrainConfig(method="rnd-episodic"),
    TrainConfig(method="episodic"),
)
"""The criterion as tuned, and with the paper's α; without clipping; without the restriction; RND with the restriction,
which is α 0; the restriction alone."""

SHARED = ("bebold", "episodic")
"""Rows of Table 2, whose runs these are."""


def _run(arm: TrainConfig, task: str, seed: int) -> TrainConfig:
    return replace(run_of(arm, task, seed), stop_when_solved=arm.name not in SHARED)


_RUNS = tuple(_run(arm, task, seed) for seed in REPORTED_SEEDS[:3] for arm in ARMS for task in TASKS)

ABLATIONS = Experiment(
    "ablations",
    "What each part of the criterion does",
    _RUNS,
    tuple(
        cut_short(replace(run, num_envs=64)) for run in _RUNS if (run.task, run.seed) == ("MRN7S8", REPORTED_SEEDS[0])
    ),
)
