"""Every method of the package on three KeyCorridors, so that one that is broken shows.

On KCS3R3 a bonus that works makes the task solved by a million steps or two, which without one (`none`) it is at four
million or not at all; runs that are not Table 2's stop there. On the two smaller KeyCorridors chance finds the ball: a
bonus that does harm shows on the smallest, and one that helps on the other. BeBold learns KCS3R3 with the V-trace
learner, too.
"""

from __future__ import annotations

from dataclasses import replace

from bebold.config import EvaluationConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short
from bebold.experiments.static import EVALUATIONS
from bebold.experiments.table2 import LEAST, RUNS, run_of

TASK = "KCS3R3"
EASY = {"MiniGrid-KeyCorridorS3R1-v0": 1_000_000, "MiniGrid-KeyCorridorS3R2-v0": 2_000_000}
"""Environment steps on the easy tasks, which are learnt within few of the usual intervals between evaluations."""
SEED = REPORTED_SEEDS[0]
METHODS = (
    "bebold", "rnd", "rnd-episodic", "bebold-no-episodic", "bebold-no-clip", "bebold-averaged", "bebold-count",
    "count", "icm", "ride", "episodic", "amigo", "none",
)  # fmt: skip
"""All there are, as a test holds against the table of recipes."""
IMPALA = TrainConfig(method="bebold", label="bebold-impala", learner="impala")


def _run(row: TrainConfig) -> TrainConfig:
    """That of Table 2, where it has one."""
    own = replace(run_of(row, TASK, SEED, LEAST), stop_when_solved=True)
    return next((run for run in RUNS if (run.name, run.task, run.seed) == (own.name, TASK, SEED)), own)


_RUNS = (
    *(_run(TrainConfig(method=method)) for method in METHODS),
    _run(IMPALA),
    *(
        TrainConfig(
            task=task,
            method=method,
            seed=SEED,
            total_steps=steps,
            workers=1,
            evaluation=EvaluationConfig(interval=steps // EVALUATIONS),
        )
        for task, steps in EASY.items()
        for method in METHODS
    ),
)

EVERY_METHOD = Experiment(
    "every-method",
    "Every method on three KeyCorridors",
    _RUNS,
    tuple(
        cut_short(replace(run, num_envs=64))
        for run in _RUNS
        if "S3R1" in run.task and run.method in ("bebold-averaged", "bebold-count", "count", "rnd-episodic")
    ),
)
