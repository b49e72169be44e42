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
    experiment.EQ3,
    experiment.OBSERVATION,
    experiment.POSE,
    experiment.POSE_AVERAGED,
    experiment.POSITION,
)
MOMENTS = (20_000, 50_000, 100_000, 200_000)
"""Environment steps of training, at least, after which agents are compared."""
SMOKE_MOMENTS = (3_000,)
SEED = REPORTED_SEEDS[0]
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
        logits = torch.full((*starts.shape, self.num_actions), -1e9, device=starts.device)
        logits[..., TURN_LEFT] = 0.0
        return logits, torch.zeros(*starts.shape, 1, device=starts.device), state


@dataclass(frozen=True)
class Paid:
    """Means over episodes of an agent that only turns and of the one that is trained, at one moment; bonus before β."""

    steps: int
    turning: float
    """Bonus of 100 steps, all turns."""
    by_chance: float
    """Of it, what is paid after the third turn: at least so much the balls have earned."""
    first_visits: float
    """Steps of these that led to a key that was new in the episode."""
    trained: float
    """Bonus of the trained agent."""
    length: float
    """Steps of its episodes."""
    reward: float
    """Its extrinsic return."""
    forward: float
    """Share of its steps that go forward."""


def run(folder: Path, *, smoke: bool, at_once: int, quiet: bool) -> None:
    """Train one agent an arm, and write `tables.md`: a minute.

    Raises
    ------
    RunError : a file cannot be written
    """
    moments = SMOKE_MOMENTS if smoke else MOMENTS
    found = {}
    for arm in ARMS:
        config = replace(arm, task=TASK, seed=SEED, total_steps=experiment.STEPS[TASK], workers=1, device="cpu")
        found[arm.name] = watch(cut_short(replace(config, num_envs=64)) if smoke else config, moments)
        if not quiet:
            print(f"{arm.name}: {moments[-1]:,} steps", flush=True)
    write_below(f"# {TITLE}\n", [table(found)], folder / "tables.md")


def watch(config: TrainConfig, moments: Sequence[int]) -> list[Paid]:
    """Train up to the last of these moments, and compare the agents after the update that reaches each."""
    with prepared_process():
        trainer = Trainer(resolve(config), Workers())
        found = []
        for moment in moments:
            while trainer.steps < moment:
                trainer.update()
            found.append(compare(trainer))
    return found


def compare(trainer: Trainer) -> Paid:
    """Let both agents play one whole episode each in `EPISODES` environments; training goes on undisturbed."""
    steps = EPISODES * trainer.task.max_steps
    turning, paid = trainer.sample(steps, seed=0, policy=Turning())
    trained, own_paid = trainer.sample(steps, seed=0)
    new = (turning.episodic_count[1:] == 1) & turning.valid
    first = trained.starts[1:].cumsum(dim=0) == 0  # steps of the first episode, which ends within the time limit
    return Paid(
        trainer.steps,
        turning=float(paid.sum()) / EPISODES,
        by_chance=float(paid[TURNS:].sum()) / EPISODES,
        first_visits=int(new.sum()) / EPISODES,
        trained=float(own_paid[first].sum()) / EPISODES,
        length=int(first.sum()) / EPISODES,
        reward=float(trained.reward[first].sum()) / EPISODES,
        forward=float((trained.action[first] == FORWARD).float().mean()),
    )


def table(found: Mapping[str, Sequence[Paid]]) -> Table:
    """A line an arm and moment."""
    return Table(
        "Turning in place",
        "Dynamic-Obstacles-5x5: the bonus of an episode, before β, as it is after so many steps of training. Turning: "
        f"an agent that turns left for 100 steps; by chance: what it is paid after its third turn, when a still room "
        "would have nothing new; first visits: of its 100 steps. Trained: the agent itself, the length and return of "
        f"its episodes, and the share of its steps that go forward. Seed {SEED}, means over {EPISODES} episodes.",
        ("bonus", "steps", "turning", "by chance", "first visits", "trained", "length", "return", "forward"),
        [
            (
                name,
                f"{paid.steps:,}",
                f"{paid.turning:.2f}",
                f"{paid.by_chance:.2f}",
                f"{paid.first_visits:.1f}",
                f"{paid.trained:.2f}",
                f"{paid.length:.0f}",
                f"{paid.reward:.2f}",
                f"{paid.forward:.2f}",
            )
            for name, moments in found.items()
            for paid in moments
        ],
        words=1,
    )
