"""What chance alone earns: the bonus of an agent that only turns in place while balls move about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from bebold.config import TrainConfig
from bebold.experiments import dynamic_obstacles as experiment
from bebold.experiments.experiment import REPORTED_SEEDS, cut_short
from bebold.gridworld.kernels import FORWARD, TURN_LEFT
from bebold.networks import Policy
from bebold.parallel import Workers, prepared_process
from bebold.settings import resolve
from bebold.tables import Table, write_below
from bebold.trainer import Trainer

TITLE = "What noise is paid"
TASK = "MiniGrid-Dynamic-Obstacles-5x5-v0"
ARMS = (
    experiment.PUBLISHED,
    experiment.OBSERVATION,
    experiment.POSE,
    experiment.POSE_AVERAGED,
    experiment.POSITION,
)
MOMENTS = (20_000, 50_000, 100_000, 200_000)
"""Environment steps of training before which agents are compared."""
EPISODES = 64
"""Of each agent in a comparison."""
TURNS = 3
"""A still room has shown all of itself after so many turns: what is paid later is paid for the balls."""


class Turning(Policy):
    """Turns left for ever."""

    needs = frozenset()
    source = "image"
    num_actions = 3

    def initial_state(self, num_envs: int) -> Tensor:
        return torch.zeros(num_envs, 0)

    def unroll(self, obs: Mapping[str, Tensor], state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = torch.full((self.num_actions,), -1e9)
        logits[TURN_LEFT] = 0.0
        return logits.expand(*starts.shape, -1), torch.zeros(*starts.shape, 1), state


@dataclass(frozen=True)
class Paid:
    """What the bonus of one moment pays, before β, to an agent that only turns and to the one that is trained."""

    steps: int
    turning: float
    """In an episode of 100 steps, all turns."""
    by_chance: float
    """Of it, what is paid after the third turn."""
    first_visits: float
    """Steps of it that led to a key that was new in the episode."""
    trained: float
    """In an episode of the trained agent, of whatever length."""
    forward: float
    """Share of the trained agent's steps that go forward."""


def run(folder: Path, *, smoke: bool, at_once: int, quiet: bool) -> None:
    """Train an agent an arm for a minute, and write `tables.md`.

    Raises
    ------
    RunError : a file cannot be written
    """
    moments = MOMENTS[:1] if smoke else MOMENTS
    found = {}
    for arm in ARMS:
        config = replace(arm, task=TASK, seed=REPORTED_SEEDS[0], total_steps=experiment.STEPS[TASK], workers=1)
        found[arm.name] = watch(cut_short(replace(config, num_envs=64)) if smoke else config, moments)
    write_below(f"# {TITLE}\n", [table(found)], folder / "tables.md")


def watch(config: TrainConfig, moments: Sequence[int]) -> list[Paid]:
    """Train up to the last of these moments, and compare the agents before the first update after each."""
    with prepared_process():
        trainer = Trainer(resolve(config), Workers())
        found = []
        for moment in moments:
            while trainer.steps < moment:
                trainer.update()
            found.append(compare(trainer))
    return found


def compare(trainer: Trainer) -> Paid:
    """Let both agents play whole episodes from the same levels; training goes on undisturbed."""
    steps = trainer.task.max_steps
    rollouts = [
        trainer.collector(EPISODES, unroll=steps, seed=0, action_seed=0).collect(policy)
        for policy in (Turning(), trainer.policy)
    ]
    turning, trained = rollouts
    paid = [trainer.intrinsic.reward(rollout) for rollout in rollouts]
    new = (turning.episodic_count[1:] == 1) & turning.valid
    episodes = trained.starts[:-1].sum()
    return Paid(
        trainer.steps,
        float(paid[0].sum()) / EPISODES,
        float(paid[0][TURNS:].sum()) / EPISODES,
        int(new.sum()) / EPISODES,
        float(paid[1].sum() / episodes),
        float(((trained.action == FORWARD) & trained.valid).sum() / trained.valid.sum()),
    )


def table(found: Mapping[str, Sequence[Paid]]) -> Table:
    """A line an arm and moment."""
    return Table(
        "Turning in place",
        "Dynamic-Obstacles-5x5: the bonus of an episode, before β, as it is after so many steps of training. Turning: "
        f"an agent that turns left for 100 steps, mean over {EPISODES} episodes; by chance: what it is paid after its "
        "third turn, when a still room would have nothing new; first visits: of its 100 steps. Trained: the agent "
        "itself, and the share of its steps that go forward.",
        ("bonus", "steps", "turning", "by chance", "first visits", "trained", "forward"),
        [
            (
                name,
                f"{paid.steps:,}",
                f"{paid.turning:.2f}",
                f"{paid.by_chance:.2f}",
                f"{paid.first_visits:.1f}",
                f"{paid.trained:.2f}",
                f"{paid.forward:.2f}",
            )
            for name, moments in found.items()
            for paid in moments
        ],
        words=1,
    )
