"""The paper's sweep over the entropy coefficient and β on KeyCorridorS4R3.

Both weigh against the environment's reward, which counts ten times here: so do they. Runs stop when they are solved.
"""

from __future__ import annotations

from dataclasses import replace

from bebold.config import IntrinsicConfig, PPOConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short
from bebold.experiments.table2 import run_of

TASK = "KCS4R3"
ENTROPIES = (1e-3, 5e-3, 1e-2)
"""Ten times the paper's 1e-4, 5e-4 and 1e-3."""
BETAS = (0.1, 0.5, 1.0, 3.0)
"""Ten times the paper's .01, .05 and .1, and three times the largest."""
OURS = (5e-3, 1.0)
"""The defaults, which are ten times the paper's: the runs of its Table 2."""


def label(entropy: float, beta: float) -> str:
    """What one cell's runs are called."""
    return "bebold" if (entropy, beta) == OURS else f"bebold-ent{entropy:g}-beta{beta:g}"


def _run(entropy: float, beta: float, seed: int) -> TrainConfig:
    ours = run_of(TrainConfig(method="bebold"), TASK, seed)
    if (entropy, beta) == OURS:
        return ours
    return replace(
        ours,
        label=label(entropy, beta),
        stop_when_solved=True,
        ppo=PPOConfig(entropy=entropy),
        intrinsic=IntrinsicConfig(coefficient=beta),
    )


_RUNS = tuple(
    _run(entropy, beta, seed) for seed in REPORTED_SEEDS[:2] for entropy in ENTROPIES for beta in reversed(BETAS)
)

SENSITIVITY = Experiment(
    "sensitivity",
    "Entropy and bonus coefficients on KeyCorridorS4R3",
    _RUNS,
    tuple(cut_short(replace(run, num_envs=64)) for run in _RUNS if run.seed == REPORTED_SEEDS[0])[:: len(BETAS) + 1],
    grid=tuple(
        tuple((label(entropy, beta), f"entropy {entropy:g}, β {beta:g}") for beta in BETAS) for entropy in ENTROPIES
    ),
)
