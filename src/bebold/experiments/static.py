"""All other static tasks (the paper's appendix), most of which need little exploration."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import EvaluationConfig, IntrinsicConfig, RNDConfig, TrainConfig
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
    "MiniGrid-SimpleCrossingS9N1-v0": 1_500_000,
    "MiniGrid-SimpleCrossingS9N2-v0": 1_500_000,
    "MiniGrid-SimpleCrossingS9N3-v0": 1_500_000,
    "MiniGrid-SimpleCrossingS11N5-v0": 2_000_000,
}
"""Environment steps of each run: twice or three times what a tuning seed of BeBold needed to learn the task
(benchmarks/static-budgets.yaml), and half a million at least, since every method begins to learn slowly."""
VIEWS = IntrinsicConfig(coefficient=0.3, key="observation", rnd=RNDConfig(encoding="onehot", learning_rate=1e-3))
"""The paper's key, observations. Where there is nothing to take or to open, contacts are soon all known. β, as in
`OPEN_ROWS`, is the one that suited the harder tasks (benchmarks/keys.yaml, benchmarks/tuning-near.yaml)."""
ROWS = (
    TrainConfig(),
    TrainConfig(label="bebold-views", intrinsic=VIEWS),
    *(TrainConfig(method=method) for method in ("episodic", "ride", "rnd", "count", "icm", "amigo", "none")),
)
"""The paper's methods, counts, and BeBold's restriction alone."""
OPEN_ROWS = (
    TrainConfig(method="episodic", label="episodic-views", intrinsic=replace(VIEWS, coefficient=0.03)),
    TrainConfig(method="rnd", label="rnd-views", intrinsic=replace(VIEWS, coefficient=0.1)),
    TrainConfig(method="count", label="count-views", intrinsic=replace(VIEWS, coefficient=0.03)),
    TrainConfig(method="ride", label="ride-states", intrinsic=IntrinsicConfig(coefficient=0.001, key="full_state")),
)
"""And where there is nothing to take or to open, the others with the keys of their papers."""
OPEN = tuple(task for task in STEPS if "FourRooms" in task or "Crossing" in task)
EVALUATIONS = 20
"""Of each run's progress: most runs are shorter than a few of the usual intervals."""
LONG = ("MiniGrid-Empty-16x16-v0", "MiniGrid-DoorKey-16x16-v0", "MiniGrid-RedBlueDoors-8x8-v0")
"""Half as many where an agent that fails plays episodes of a thousand steps and more."""


_RUNS = tuple(
    replace(
        row,
        task=task,
        seed=seed,
        total_steps=steps,
        workers=1,
        evaluation=EvaluationConfig(interval=steps // (EVALUATIONS // 2 if task in LONG else EVALUATIONS)),
    )
    for seed in REPORTED_SEEDS[:2]
    for rows, tasks in ((ROWS, tuple(STEPS)), (OPEN_ROWS, OPEN))
    for row in rows
    for task, steps in STEPS.items()
    if task in tasks
)

STATIC = Experiment(
    "static",
    "All other static tasks of MiniGrid",
    _RUNS,
    tuple(
        cut_short(replace(run, num_envs=64))
        for run in _RUNS
        if (run.task, run.seed) == ("MiniGrid-DoorKey-5x5-v0", REPORTED_SEEDS[0]) and run.method != "episodic"
    ),
)
