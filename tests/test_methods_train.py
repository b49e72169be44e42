"""Every method with either learner, and every published network: it trains, and its state resumes exactly."""

import io
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from small import SMALL

from bebold.config import TrainConfig
from bebold.methods.recipes import RECIPES
from bebold.parallel import Workers
from bebold.presets import preset
from bebold.settings import resolve
from bebold.trainer import Trainer

LEARNT = {"rnd", "averaged-rnd", "error", "impact", "goals", "inverse-count", "inverse-root-count"}
"""Novelties that have something to learn or to count."""


def make(config: TrainConfig) -> Trainer:
    return Trainer(resolve(config), Workers())


def tensors(state: Any, name: str = "") -> dict[str, torch.Tensor]:
    """All that a state holds, numbers included, by their places in it."""
    if isinstance(state, dict):
        pairs = state.items()
    elif isinstance(state, (list, tuple)):
        pairs = enumerate(state)
    elif isinstance(state, torch.Tensor):
        return {name: state.clone()}
    else:
        return {name: torch.tensor(state)} if isinstance(state, (int, float)) else {}
    return {place: leaf for key, value in pairs for place, leaf in tensors(value, f"{name}/{key}").items()}


def stats_of(trainer: Trainer) -> dict[str, float]:
    return {key: value for key, value in trainer.update().items() if not key.startswith("time/")}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def trains_and_resumes(config: TrainConfig) -> dict[str, bool]:
    """Two updates, then a third by the same trainer and by one that was restored; whether policy and bonus learnt."""
    trainer = make(config)
    before = tensors(trainer.state())
    for _ in range(2):
        stats = stats_of(trainer)
    assert torch.isfinite(torch.tensor(list(stats.values()))).all()
    after = tensors(trainer.state())
    file = io.BytesIO()
    torch.save(trainer.state(), file)
    file.seek(0)
    resumed = make(config)
    (part,) = resumed.parts(torch.load(file, weights_only=True))
    resumed.restore(part)
    assert stats_of(resumed) == pytest.approx(stats_of(trainer), abs=0, rel=0, nan_ok=True)
    assert same(tensors(resumed.state()), tensors(trainer.state()))
    # Optimisers and generators change also where nothing is learnt; AMIGo's guide belongs to the bonus.
    bare = {n for n in before.keys() & after.keys() if not re.search("optimiser|generator|guide", n)}
    changed = {name for name in bare if not torch.equal(before[name], after[name])}
    return {part: any(n.startswith(f"/{part}") for n in changed) for part in ("learner/policy", "intrinsic")}


@pytest.mark.parametrize("learner", ["ppo", "impala"])
@pytest.mark.parametrize("method", RECIPES)
def test_every_method_trains_with_either_learner_and_resumes_exactly(method: str, learner: str) -> None:
    # Episodes are so short that some end, and with them AMIGo's goals.
    learnt = trains_and_resumes(replace(SMALL, method=method, learner=learner, max_episode_steps=20))
    assert learnt == {"learner/policy": True, "intrinsic": RECIPES[method].novelty in LEARNT}


@pytest.mark.parametrize("method", ["bebold", "rnd", "ride", "amigo"])
def test_the_published_networks_train_and_resume_exactly(method: str) -> None:
    """A method of each architecture, as published but for the sizes of rollouts and batches."""
    config = preset("paper", method=method)
    goals = replace(config.intrinsic.amigo, batch=2)
    small = {"seed": 3, "num_envs": 2, "unroll": 8, "workers": 1, "device": "cpu", "max_episode_steps": 5}
    config = replace(config, **small, intrinsic=replace(config.intrinsic, amigo=goals))
    assert config.learner == "impala" and config.policy_lag == 1
    assert trains_and_resumes(config) == {"learner/policy": True, "intrinsic": True}
