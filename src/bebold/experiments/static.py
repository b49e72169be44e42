"""All other static tasks (the paper's appendix), most of which need little exploration."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import EvaluationConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short

STEPS = {
    "MiniGrid-Empty-5x5-v0": 250_000,
    "MiniGrid-Empty-Random-5x5-v0": 250_000,
    "MiniGrid-Empty-6x6-v0": 250_000,
    "MiniGrid-Empty-Random-6x6-v0": 250_000,
    "MiniGrid-Empty-8x8-v0": 500_000,
    "MiniGrid-Empty-16x16-v0": 1_000_000,
    "MiniGrid-FourRooms-v0": 4_000_000,
    "MiniGrid-DoorKey-5x5-v0": 500_000,
    "MiniGrid-DoorKey-6x6-v0": 1_000_000,
    "MiniGrid-DoorKey-8x8-v0": 2_000_000,
    "MiniGrid-DoorKey-16x16-v0": 4_000_000,
    "MiniGrid-RedBlueDoors-6x6-v0": 1_000_000,
    "MiniGrid-RedBlueDoors-8x8-v0": 2_000_000,
    "MiniGrid-LavaGapS5-v0": 500_000,
    "MiniGrid-LavaGapS6-v0": 1_000_000,
    "MiniGrid-LavaGapS7-v0": 1_000_000,
    "MiniGrid-LavaCrossingS9N1-v0": 1_000_000,
    "MiniGrid-LavaCrossingS9N2-v0": 2_000_000,
    "MiniGrid-LavaCrossingS9N3-v0": 2_000_000,
    "MiniGrid-LavaCrossingS11N5-v0": 4_000_000,
    "MiniGrid-SimpleCrossingS9N1-v0": 1_000_000,
    "MiniGrid-SimpleCrossingS9N2-v0": 1_000_000,
    "MiniGrid-SimpleCrossingS9N3-v0": 1_000_000,
    "MiniGrid-SimpleCrossingS11N5-v0": 2_000_000,
}
"""Environment steps of each run."""
METHODS = ("bebold", "ride", "rnd", "count", "icm", "amigo", "none")
EVALUATIONS = 10
"""Of each run's progress: some runs are shorter than the usual interval."""

_RUNS = tuple(
    TrainConfig(
        task=task,
        method=method,
        seed=seed,
        total_steps=steps,
        workers=1,
        evaluation=EvaluationConfig(interval=steps // EVALUATIONS),
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
