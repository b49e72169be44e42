"""The judgement of a trained agent: fresh levels of Farama's own environment."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bebold.checkpoint import load_weights, replacing
from bebold.errors import RunError
from bebold.evaluation import TEST_LEVELS, evaluate, load_policy
from bebold.experiments.published import published_return
from bebold.gridworld.tasks import find_task, repaired_task
from bebold.runs import verdict_file


@dataclass(frozen=True)
class Verdict:
    """What an agent earned over `episodes` levels."""

    task: str
    """The paper's short name where there is one."""
    id: str
    episodes: int
    greedy: bool
    steps: int
    """Environment steps it was trained for."""
    return_mean: float
    return_std: float
    solved: float
    """Share of levels with any reward."""
    length_mean: float

    def __str__(self) -> str:
        paper = published_return(self.task)
        beside = "" if paper is None else f" (BeBold in the paper: {paper:.2f})"
        actions = "greedy" if self.greedy else "sampled"
        return (
            f"{self.task}: {self.episodes} fresh levels of Farama's {self.id}, {actions} actions\n"
            f"return {self.return_mean:.3f} ± {self.return_std:.3f}{beside}, "
            f"{self.solved:.1%} of levels solved, {self.length_mean:.1f} steps an episode"
        )

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def judge(source: Path, *, episodes: int = TEST_LEVELS, greedy: bool = False, repaired: bool = False) -> Verdict:
    """Play the policy of a run folder or a file of weights; in a run folder the verdict is kept.

    Parameters
    ----------
    repaired : play the -v1 id of the ObstructedMaze that it was trained on, see `repaired_task`

    Raises
    ------
    UsageError : there are no weights, or no repaired levels
    RunError : they cannot be read
    """
    policy, config = load_policy(source)
    # A run that goes on replaces its weights: they and the steps must come from one reading.
    path = source / "weights.safetensors" if source.is_dir() else source
    weights, words = load_weights(path)
    if not words.get("steps", "").isdecimal():
        raise RunError(f"{path} does not say after how many steps it was written; resume the run to write it anew")
    policy.load_state_dict(weights)
    task = repaired_task(config.task) if repaired else find_task(config.task)
    played = evaluate(policy, task.id, episodes=episodes, greedy=greedy)
    verdict = Verdict(
        task=task.name,
        id=task.id,
        episodes=episodes,
        greedy=greedy,
        steps=int(words["steps"]),
        return_mean=played.mean,
        return_std=played.std,
        solved=played.solved,
        length_mean=float(played.lengths.mean()),
    )
    if source.is_dir():
        path = source / verdict_file(repaired=repaired, greedy=greedy)
        with replacing(path) as file:
            file.write(json.dumps(verdict.as_dict(), indent=1).encode() + b"\n")
    return verdict
