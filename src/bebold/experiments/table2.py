"""The paper's Table 2: its twelve hardest MiniGrid tasks, and what our settings change about BeBold."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import IntrinsicConfig, PPOConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short

STEPS = {
    "MRN6": 4_000_000,
    "MRN7S8": 4_000_000,
    "MRN12S10": 5_000_000,
    "KCS3R3": 3_000_000,
    "KCS4R3": 5_000_000,
    "KCS5R3": 6_000_000,
    "KCS6R3": 10_000_000,
    "OM2Dlh": 5_000_000,
    "OM2Dlhb": 12_000_000,
    "OM1Q": 8_000_000,
    "OM2Q": 12_000_000,
    "OMFull": 24_000_000,
}
"""Environment steps of each run. The paper's are 120 M."""

ALPHA1_SCALE1 = TrainConfig(
    label="bebold-alpha1-scale1",
    ppo=PPOConfig(extrinsic_scale=1.0),
    intrinsic=IntrinsicConfig(alpha=1.0),
)
"""α and the reward's scale as in the paper, all else as tuned."""

OURS = (
    (TrainConfig(method="bebold"), REPORTED_SEEDS),
    (ALPHA1_SCALE1, REPORTED_SEEDS[:2]),
    (TrainConfig(method="episodic"), REPORTED_SEEDS[:2]),
)
"""Settings and seeds of BeBold's rows, and of the control that shows what novelty adds."""

BASELINES = tuple(
    (TrainConfig(method=method), REPORTED_SEEDS[:2]) for method in ("ride", "rnd", "none", "icm", "amigo")
)
"""The paper's other rows, each with our policy, learner and inputs, its own bonus and β."""

LEAST = 5_000_000
"""Steps of a baseline's run where BeBold's is shorter."""

GIVE_UP_AT = {
    "KCS6R3": 6_250_000,
    "OM2Dlhb": 7_500_000,
    "OM1Q": 5_000_000,
    "OM2Q": 10_000_000,
    "OMFull": 16_000_000,
}
"""When a run beside BeBold's that has earned nothing gives up: each seed of BeBold has solved the task by then, `LEAST`
steps are taken, and an eighth of the run, with the four evaluations that decide, has gone by without a bonus, which
some of the others drown the task with."""

LONG = {"OM2Q": 1_000_000, "OMFull": 1_000_000}
"""Steps between evaluations where episodes are so long that to play 128 of them to the end takes as long as to train
on the usual 250 000. BeBold's own rows have the usual ones throughout."""


def run_of(row: TrainConfig, task: str, seed: int, least: int = 0) -> TrainConfig:
    """One run of a row, of at least so many steps."""
    run = replace(row, task=task, seed=seed, total_steps=max(STEPS[task], least), workers=1)
    if row.name == "bebold":
        return run
    interval = LONG.get(task, run.evaluation.interval)
    return replace(run, give_up_at=GIVE_UP_AT.get(task, 0), evaluation=replace(run.evaluation, interval=interval))


RUNS = tuple(
    run_of(row, task, seed, least)
    for seed in REPORTED_SEEDS
    for rows, least in ((OURS, 0), (BASELINES, LEAST))
    for row, seeds in rows
    if seed in seeds
    for task in STEPS
)
"""Seed by seed, so that one seed of all rows is complete before the next is begun."""

_KEYS = ("bebold-alpha1-scale1", "ride", "none", "amigo")
"""What is rehearsed on a KeyCorridor; the others are on a MultiRoom."""

TABLE2 = Experiment(
    "table2",
    "The twelve hardest MiniGrid tasks",
    RUNS,
    tuple(
        cut_short(r)
        for r in RUNS
        if r.seed == REPORTED_SEEDS[0] and r.task == ("KCS3R3" if r.name in _KEYS else "MRN6")
    ),
)
