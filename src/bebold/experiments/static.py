"""All other static tasks (the paper's appendix), most of which need little exploration."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import EvaluationConfig, PPOConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short

STEPS = {
    "MiniGrid-Empty-5x5-v0": 500_000,
    "MiniGrid-Empty-Random-5x5-v0": 500_000,
    "MiniGrid-Empty-6x6-v0": 500_000,
    "MiniGrid-Empty-Random-6x6-v0": 500_000,
    "MiniGrid-Empty-8x8-v0": 500_000,
    "MiniGrid-Empty-16x16-v0": 500_000,
    "MiniGrid-FourRooms-v0": 2_500_000,
    "MiniGrid-DoorKey-5x5-v0": 500_000,
    "MiniGrid-DoorKey-6x6-v0": 500_000,
    "MiniGrid-DoorKey-8x8-v0": 1_000_000,
    "MiniGrid-DoorKey-16x16-v0": 2_500_000,
    "MiniGrid-RedBlueDoors-6x6-v0": 1_000_000,
    "MiniGrid-RedBlueDoors-8x8-v0": 2_000_000,
    "MiniGrid-LavaGapS5-v0": 1_000_000,
    "MiniGrid-LavaGapS6-v0": 1_000_000,
    "MiniGrid-LavaGapS7-v0": 1_500_000,
    "MiniGrid-LavaCrossingS9N1-v0": 1_500_000,
    "MiniGrid-LavaCrossingS9N2-v0": 2_000_000,
    "MiniGrid-LavaCrossingS9N3-v0": 2_500_000,
    "MiniGrid-LavaCrossingS11N5-v0": 3_000_000,
    "MiniGrid-SimpleCrossingS9N1-v0": 1_000_000,
    "MiniGrid-SimpleCrossingS9N2-v0": 1_000_000,
    "MiniGrid-SimpleCrossingS9N3-v0": 1_000_000,
    "MiniGrid-SimpleCrossingS11N5-v0": 1_500_000,
}
"""Environment steps of each run: about twice what a tuning seed of BeBold needed to learn the task
(benchmarks/static-budgets.yaml), and half a million at least, since every method begins to learn slowly."""
ENTROPY = {f"MiniGrid-LavaGapS{size}-v0": 0.05 for size in (5, 6, 7)}
"""Entropy coefficients that are not the usual one. Where the gap is in the agent's row the way leads straight ahead,
and elsewhere nothing is lost by dying: with 5e-3 most policies go that way for ever (docs/research-log.md)."""
METHODS = ("bebold", "episodic", "ride", "rnd", "count", "icm", "amigo", "none")
"""The paper's, counts, and BeBold's restriction alone."""
EVALUATIONS = 20
"""Of each run's progress: most runs are shorter than a few of the usual intervals."""
FEW = dict.fromkeys(
    ("MiniGrid-Empty-16x16-v0", "MiniGrid-DoorKey-16x16-v0", "MiniGrid-RedBlueDoors-8x8-v0"), EVALUATIONS // 2
)
"""Where an agent that fails plays episodes of a thousand steps and more."""


def entropy_of(task: str) -> float:
    """The entropy coefficient of runs on the task with this id."""
    return ENTROPY.get(task, PPOConfig.entropy)


_RUNS = tuple(
    TrainConfig(
        task=task,
        method=method,
        seed=seed,
        total_steps=steps,
        workers=1,
        ppo=PPOConfig(entropy=entropy_of(task)),
        evaluation=EvaluationConfig(interval=steps // FEW.get(task, EVALUATIONS)),
    )
    for seed in REPORTED_SEEDS[:2]
    for method in METHODS
    for task, steps in STEPS.items()
)

STATIC = Experiment(
    "static",
    "All other static tasks of MiniGrid",
    _RUNS,
    tuple(
        cut_short(replace(run, num_envs=64))
        for run in _RUNS
        if (run.task, run.seed) == ("MiniGrid-DoorKey-5x5-v0", REPORTED_SEEDS[0])
    ),
)
