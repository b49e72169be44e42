"""What noise is paid: the agent that turns, its bonus beside a still room's, one command to the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bebold.cli import main
from bebold.config import NetworkConfig, TrainConfig
from bebold.envs import make_envs
from bebold.experiments import dynamic_obstacles as experiment
from bebold.gridworld.kernels import TURN_LEFT
from bebold.parallel import Workers
from bebold.settings import resolve, validate
from bebold.studies import noise
from bebold.trainer import Trainer

SMALL = {"seed": 3, "num_envs": 8, "unroll": 16, "workers": 1, "network": NetworkConfig(hidden=16, memory=16)}


@pytest.fixture(scope="module")
def paid() -> dict[str, noise.Paid]:
    """Untrained agents, whose novelty is 1 everywhere."""
    arms = {arm.name: arm for arm in (experiment.OBSERVATION, experiment.POSE, experiment.POSITION)}
    return {
        name: noise.compare(Trainer(resolve(replace(arm, task=noise.TASK, **SMALL)), Workers()))
        for name, arm in arms.items()
    }


def test_turning_shows_four_poses_and_one_position_and_all_else_is_the_balls(paid: dict[str, noise.Paid]) -> None:
    # An episode begins with a first visit, which no step is paid for.
    assert paid["bebold-pose"].first_visits == 3
    assert paid["bebold-position"].first_visits == 0
    assert paid["bebold-observation"].first_visits > 10
    # n = 1 of all that is unseen, so that a first visit pays 1 - α = 0.5.
    for name in paid:
        assert paid[name].turning == pytest.approx(0.5 * paid[name].first_visits, rel=1e-5)
    assert paid["bebold-pose"].by_chance == paid["bebold-position"].by_chance == 0
    assert paid["bebold-observation"].by_chance == pytest.approx(paid["bebold-observation"].turning - 1.5, rel=1e-5)


def test_first_visits_by_chance_are_those_of_a_count_by_hand(paid: dict[str, noise.Paid]) -> None:
    envs = make_envs(noise.TASK, noise.EPISODES)
    obs, _ = envs.reset(seed=0)
    seen = [{view.tobytes()} for view in obs["image"]]
    first = 0
    for _ in range(100):
        obs, _, terminated, truncated, _ = envs.step([TURN_LEFT] * noise.EPISODES)
        assert not terminated.any()
        for views, view in zip(seen, obs["image"], strict=True):
            first += view.tobytes() not in views
            views.add(view.tobytes())
    assert truncated.all()
    assert paid["bebold-observation"].first_visits == first / noise.EPISODES


def test_comparing_disturbs_no_training() -> None:
    config = resolve(replace(experiment.POSE_AVERAGED, task=noise.TASK, **SMALL))
    watched, alone = Trainer(config, Workers()), Trainer(config, Workers())
    for _ in range(2):
        noise.compare(watched)
        watched.update()
        alone.update()
    for name, parameter in watched.policy.state_dict().items():
        torch.testing.assert_close(parameter, alone.policy.state_dict()[name], rtol=0, atol=0)


def test_arms_change_what_their_names_say() -> None:
    for arm in experiment.ARMS:
        validate(replace(arm, task=noise.TASK))
    names = [arm.name for arm in experiment.ARMS]
    assert len(set(names)) == len(names)
    by_name = {arm.name: arm for arm in experiment.ARMS}
    assert by_name["bebold"] == TrainConfig()
    pose = by_name["bebold-pose"]
    assert by_name["bebold-pose-alpha1"] == replace(
        pose, label="bebold-pose-alpha1", intrinsic=replace(pose.intrinsic, alpha=1.0)
    )
    for key in ("observation", "position"):
        assert by_name[f"bebold-{key}"] == replace(
            pose, label=f"bebold-{key}", intrinsic=replace(pose.intrinsic, key=key)
        )


def test_one_command_leads_to_the_table(tmp_path: Path) -> None:
    assert main(["reproduce", "noise", "--smoke", "--quiet", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "noise-smoke" / "tables.md").read_text()
    for arm in noise.ARMS:
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {arm.name} |"))
        assert len(line.split("|")) == 9
