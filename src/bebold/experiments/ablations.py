"""The paper's ablations: what each part of the criterion does, on four of the tasks."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short
from bebold.experiments.table2 import STEPS

TASKS = ("KCS4R3", "KCS5R3", "MRN7S8", "MRN12S10")
METHODS = ("bebold", "rnd-episodic", "bebold-no-episodic", "bebold-no-clip", "episodic")
"""The criterion; RND with the restriction; without the restriction; without clipping; the restriction alone."""

_RUNS = tuple(
    TrainConfig(task=task, method=method, seed=seed, total_steps=STEPS[task], workers=1)
    for seed in REPORTED_SEEDS[:3]
    for method in METHODS
    for task in TASKS
)

ABLATIONS = Experiment(
    "ablations",
    "What each part of the criterion does",
    _RUNS,
    tuple(
        cut_short(replace(run, num_envs=64)) for run in _RUNS if (run.task, run.seed) == ("MRN7S8", REPORTED_SEEDS[0])
    ),
)
