"""The paper's sweep over the entropy coefficient and β on KeyCorridorS4R3."""

from __future__ import annotations

from dataclasses import replace

from bebold.config import IntrinsicConfig, PPOConfig, TrainConfig
from bebold.experiments.experiment import REPORTED_SEEDS, Experiment, cut_short

ENTROPIES = (1e-4, 5e-4, 1e-3, 5e-3)
"""The paper's three, and ours."""
BETAS = (0.01, 0.05, 0.1, 1.0, 3.0)
"""The paper's three, ours, which is larger since first visits of contacts are rarer than those of observations, and
three times ours."""
STEPS = 4_000_000


def label(entropy: float, beta: float) -> str:
    """What one cell's runs are called."""
    return f"bebold-ent{entropy:g}-beta{beta:g}"


_RUNS = tuple(
    TrainConfig(
        task="KCS4R3",
        label=label(entropy, beta),
        seed=seed,
        total_steps=STEPS,
        workers=1,
        ppo=PPOConfig(entropy=entropy),
        intrinsic=IntrinsicConfig(coefficient=beta),
    )
    for entropy in ENTROPIES
    for beta in BETAS
    for seed in REPORTED_SEEDS[:2]
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
