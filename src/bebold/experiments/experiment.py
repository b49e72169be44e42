"""What an experiment is: runs, as settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bebold.config import EvaluationConfig, TrainConfig

REPORTED_SEEDS = (11, 12, 13, 14)
"""Of reported runs. Settings were sought on seeds from 101 on, and tried on 1 to 4 before they were final."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure: one of the paper's, or a check of ours."""

    name: str
    title: str
    runs: Sequence[TrainConfig]
    smoke: Sequence[TrainConfig]
    """A few of them, cut to seconds: the same path, no result."""
    grid: Sequence[Sequence[tuple[str, str]]] = ()
    """Where settings are varied along two axes: rows of panels, each a label and its title."""
    metrics: Mapping[str, tuple[Sequence[str], str]] = field(default_factory=dict)
    """What else to draw over time: the figure's name, keys of the logs and settings that are multiplied, what
    the axis is called."""


def cut_short(config: TrainConfig) -> TrainConfig:
    """The same run with three evaluations within ten updates."""
    steps = 10 * config.num_envs * config.unroll
    return replace(config, total_steps=steps, evaluation=EvaluationConfig(interval=steps // 3, episodes=8))
