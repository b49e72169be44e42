"""What noise is paid: the agent that turns, its bonus beside a still room's, one command to the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bebold.cli import main
from bebold.config import NetworkConfig, TrainConfig
from bebold.envs import make_envs
from bebold.experiments import dynamic_obstacles as experiment
from bebold.gridworld.kernels import TURN_LEFT
from bebold.parallel import Workers
from bebold.settings import differences, resolve, validate
from bebold.studies import noise
from bebold.trainer import Trainer

NETWORK = NetworkConfig(hidden=16, memory=16)
SMALL: dict[str, Any] = {"seed": 3, "num_envs": 8, "unroll": 16, "workers": 1, "network": NETWORK}


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


def test_the_trained_agent_is_judged_by_its_first_whole_episodes() -> None:
    trainer = Trainer(resolve(replace(experiment.POSE, task=noise.TASK, **SMALL)), Workers())
    rollout = trainer.collector(noise.EPISODES, unroll=100, seed=0, action_seed=0).collect(trainer.policy)
    bonus = trainer.intrinsic.reward(rollout)
    paid = reward = length = forward = 0.0
    for b in range(noise.EPISODES):
        for t in range(100):
            paid, reward = paid + bonus[t, b].item(), reward + rollout.reward[t, b].item()
            length, forward = length + 1, forward + (rollout.action[t, b].item() == 2)
            if rollout.ended[t, b]:
                break
        else:
            raise AssertionError("no episode is longer than 100 steps")
    found = noise.compare(trainer)
    assert (found.length, found.forward) == (length / noise.EPISODES, pytest.approx(forward / length))
    assert found.trained == pytest.approx(paid / noise.EPISODES, rel=1e-5)
    assert found.reward == pytest.approx(reward / noise.EPISODES, rel=1e-5) and reward < 0


@pytest.mark.parametrize(
    ("base", "arm", "changed"),
    [
        ("bebold", "bebold-scale1", {"ppo.extrinsic_scale"}),
        ("bebold-scale1", "none-scale1", {"method"}),
        ("bebold-observation", "bebold-eq3", {"ppo.entropy", "intrinsic.coefficient", "intrinsic.alpha"}),
        ("bebold-observation", "bebold-pose", {"intrinsic.key"}),
        ("bebold-observation", "bebold-position", {"intrinsic.key"}),
        ("bebold-pose", "bebold-pose-alpha1", {"intrinsic.alpha"}),
        ("bebold-pose", "bebold-pose-averaged", {"method"}),
        ("bebold-position", "bebold-position-scale10", {"ppo.extrinsic_scale"}),
        ("bebold-position", "bebold-position-count", {"method"}),
        ("bebold-position", "episodic-position", {"method"}),
    ],
)
def test_an_arm_changes_what_its_name_says(base: str, arm: str, changed: set[str]) -> None:
    arms = {arm.name: arm for arm in experiment.ARMS}
    assert len(arms) == len(experiment.ARMS) and arms["bebold"] == TrainConfig()
    validate(replace(arms[arm], task=noise.TASK))
    assert {name for name, _, _ in differences(arms[base], arms[arm], {"label"})} == changed


def test_what_mends_is_the_same_agent_on_a_task_of_each_family() -> None:
    runs = experiment.DYNAMIC_OBSTACLES.runs
    free = {"task", "seed", "total_steps", "evaluation", "label", "stop_when_solved"}
    for name in ("bebold-pose", "bebold-position", "bebold"):
        first = next(run for run in runs if (run.name, run.task) == (name, noise.TASK))
        tasks = {run.task: run for run in runs if run.name == f"{name}-beta10"}
        assert tasks.keys() == {*experiment.STEPS, "MRN7S8", "KCS3R3", "OM2Dlh"}
        for run in tasks.values():
            assert run.stop_when_solved == (run.task not in experiment.STEPS)
            found = differences(resolve(replace(run, task=noise.TASK)), resolve(first), free)
            assert ("intrinsic.coefficient", 10.0, 1.0) in found
            assert [setting for setting, _, _ in found if setting != "intrinsic.coefficient"] == (
                [] if name == "bebold" else ["ppo.extrinsic_scale"]
            )


def test_one_command_leads_to_the_table(tmp_path: Path) -> None:
    assert main(["reproduce", "noise", "--smoke", "--quiet", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "noise-smoke" / "tables.md").read_text()
    for arm in noise.ARMS:
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {arm.name} |"))
        assert len(line.split("|")) == 11
