"""One policy earns the same on our engine as on Farama's environments, level by level."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from gymnasium.vector import VectorEnv
from minigrid.minigrid_env import MiniGridEnv

from bebold import checkpoint, judge
from bebold.config import NetworkConfig, TrainConfig
from bebold.envs import make_envs, make_farama_envs
from bebold.errors import RunError, UsageError
from bebold.evaluation import PROGRESS_SEED, TEST_SEED, Evaluation, evaluate, load_policy, make_policy, play
from bebold.settings import SEEDS

SMALL = NetworkConfig(hidden=8, memory=8)


@pytest.mark.parametrize(
    "task", ["MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0", "KCS3R3", "MiniGrid-MultiRoom-N2-S4-v0"]
)
@pytest.mark.parametrize("greedy", [False, True])
def test_both_engines_agree_level_by_level(task, greedy):
    envs = make_envs(task, 1)
    policy = make_policy(TrainConfig(task=task, network=SMALL), envs)
    fast = evaluate(policy, task, episodes=10, seed=77, greedy=greedy, engine="fast")
    farama = evaluate(policy, task, episodes=10, seed=77, greedy=greedy, engine="farama")
    assert np.array_equal(fast.returns, farama.returns)
    assert np.array_equal(fast.lengths, farama.lengths)
    if task == "MiniGrid-Empty-5x5-v0" and not greedy:
        assert fast.solved > 0.2  # else the comparison says little


def make_guided(task, method="amigo"):
    """AMIGo's student, and a teacher with preferences."""
    policy = make_policy(TrainConfig(task=task, method=method), make_envs(task, 1, full_grid=True))
    torch.nn.init.normal_(policy.guide.choice.weight, std=0.2, generator=torch.Generator().manual_seed(0))
    return policy


def goals_while(policy, monkeypatch, **how):
    """Play, and note which goals are set."""
    goals = []
    observe = type(policy.guide).observe

    def noted(*args, **kwargs):
        shown = observe(*args, **kwargs)
        goals.append(shown["goal"].tolist())
        return shown

    with monkeypatch.context() as patch:
        patch.setattr(type(policy.guide), "observe", noted)
        played = evaluate(policy, "MiniGrid-Empty-5x5-v0", episodes=6, seed=77, **how)
    return played, goals


@pytest.mark.parametrize("greedy", [False, True])
def test_goals_are_the_same_on_both_engines_and_after_saving(greedy, tmp_path, monkeypatch):
    task = "MiniGrid-Empty-5x5-v0"
    policy = make_guided(task)
    words = {"config": json.dumps(asdict(TrainConfig(task=task, method="amigo")))}
    checkpoint.save_weights(tmp_path / "weights.safetensors", policy.state_dict(), words)
    loaded, _ = load_policy(tmp_path)
    played, goals = goals_while(policy, monkeypatch, greedy=greedy, engine="fast")
    assert greedy or len({goal for row in goals for goal in row}) > 1  # all these levels begin alike
    assert [len(row) for row in goals] == [int((played.lengths > t).sum()) for t in range(len(goals))]
    for agent, engine in ((policy, "farama"), (loaded, "fast")):
        other, others = goals_while(agent, monkeypatch, greedy=greedy, engine=engine)
        assert np.array_equal(other.returns, played.returns) and np.array_equal(other.lengths, played.lengths)
        assert others == goals


def test_guided_greedy_play_does_not_depend_on_what_is_played_beside_it():
    task = "MiniGrid-Empty-Random-5x5-v0"
    policy = make_guided(task)
    together = play(policy, make_envs(task, 6, full_grid=True), range(6), greedy=True)
    alone = [play(policy, make_envs(task, 1, full_grid=True), [seed], greedy=True) for seed in range(6)]
    assert together.returns.tolist() == [played.returns[0] for played in alone]


def test_playing_in_one_batch_is_playing_alone():
    """Greedy play of a level does not depend on which other levels are played beside it."""
    task = "MiniGrid-Empty-Random-5x5-v0"
    policy = make_policy(TrainConfig(task=task, network=SMALL), make_envs(task, 1))
    together = play(policy, make_envs(task, 6), range(6), greedy=True)
    alone = [play(policy, make_envs(task, 1), [seed], greedy=True).returns[0] for seed in range(6)]
    assert together.returns.tolist() == alone


def test_environments_are_closed_though_playing_fails(monkeypatch):
    closed = []
    monkeypatch.setattr(MiniGridEnv, "close", lambda env: closed.append(env))
    monkeypatch.delattr(VectorEnv, "__del__")  # which would close them as garbage
    task = "MiniGrid-Empty-5x5-v0"
    policy = make_policy(TrainConfig(task=task, network=SMALL), make_envs(task, 1))
    del policy.torso
    with pytest.raises(AttributeError, match="torso"):
        evaluate(policy, task, episodes=2)
    assert len(set(closed)) == len(closed) == 2


def test_training_never_sees_the_levels_it_is_judged_on():
    largest_seed_of_training = (SEEDS - 1) * 1_000_000 + 999_999
    assert largest_seed_of_training < PROGRESS_SEED < PROGRESS_SEED + 1_000_000 <= TEST_SEED


def test_weights_bring_their_settings(tmp_path):
    config = TrainConfig(task="KCS3R3", network=SMALL, seed=4)
    policy = make_policy(config, make_envs("KCS3R3", 1))
    checkpoint.save_weights(
        tmp_path / "weights.safetensors", policy.state_dict(), {"config": json.dumps(asdict(config))}
    )
    for source in (tmp_path, tmp_path / "weights.safetensors"):
        loaded, found = load_policy(source)
        assert found == config
        for name, tensor in policy.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], tensor)


def write_weights(folder, task):
    config = TrainConfig(task=task, network=SMALL)
    words = {"config": json.dumps(asdict(config)), "steps": "7"}
    checkpoint.save_weights(folder / "weights.safetensors", make_policy(config, make_envs(task, 1)).state_dict(), words)


def test_the_repaired_levels_are_those_of_the_v1_id(tmp_path, monkeypatch):
    played = []

    def play(policy, task, *, episodes, greedy):
        played.append((task, episodes, greedy))
        return Evaluation(np.array([0.5, 0.0, 0.9, 0.6]), np.array([10, 20, 30, 40]))

    monkeypatch.setattr(judge, "evaluate", play)
    write_weights(tmp_path, "OM2Dlhb")
    verdict = judge.judge(tmp_path, episodes=4, repaired=True)
    assert (verdict.task, verdict.id) == ("OM2Dlhb-v1", "MiniGrid-ObstructedMaze-2Dlhb-v1")
    assert (verdict.steps, verdict.return_mean, verdict.solved, verdict.length_mean) == (7, 0.5, 0.75, 25.0)
    assert "75.0% of levels solved" in str(verdict) and "in the paper" not in str(verdict)
    assert json.loads((tmp_path / "evaluation-v1.json").read_text()) == verdict.as_dict()
    judge.judge(tmp_path, episodes=4, repaired=True, greedy=True)
    assert json.loads((tmp_path / "evaluation-v1-greedy.json").read_text())["greedy"]
    assert not (tmp_path / "evaluation.json").exists() and not (tmp_path / "evaluation-greedy.json").exists()
    assert judge.judge(tmp_path, episodes=4).task == "OM2Dlhb"
    v0, v1 = (f"MiniGrid-ObstructedMaze-2Dlhb-v{version}" for version in (0, 1))
    assert played == [(v1, 4, False), (v1, 4, True), (v0, 4, False)]


def test_repaired_levels_can_be_played(tmp_path):
    write_weights(tmp_path, "OM2Dlhb")
    verdict = judge.judge(tmp_path, episodes=1, repaired=True)
    policy, _ = load_policy(tmp_path)
    expected = evaluate(policy, "OM2Dlhb-v1", episodes=1, engine="fast")
    assert (verdict.return_mean, verdict.length_mean) == (expected.mean, expected.lengths[0])


def test_no_repaired_levels_is_said_clearly(tmp_path):
    write_weights(tmp_path, "OM2Dlh")
    with pytest.raises(UsageError, match="there are no repaired levels of OM2Dlh: no ball blocks a door there"):
        judge.judge(tmp_path, episodes=1, repaired=True)
    assert [path.name for path in tmp_path.iterdir()] == ["weights.safetensors"]


def test_no_weights_is_said_clearly(tmp_path):
    with pytest.raises(UsageError, match="holds no trained policy"):
        load_policy(tmp_path / "nothing")


def test_farama_envs_stand_still_after_their_end():
    envs = make_farama_envs("MiniGrid-Empty-5x5-v0", 1, autoreset=False)
    envs.reset(seed=[3])
    for _ in range(100):
        _, _, _, truncated, _ = envs.step(np.array([0]))
    assert truncated.any()
    _, reward, terminated, truncated, _ = envs.step(np.array([2]))
    assert (reward, terminated, truncated) == (0, False, False)
    envs.close()


@pytest.mark.parametrize(
    "config",
    ["no json", "[1]", '{"task": "planted:Module-v0"}', '{"task": "KCS3R4"}', '{"network": {"hidden": -4}}', None],
)
def test_weights_from_a_stranger_are_refused_and_run_no_code(config, tmp_path, monkeypatch):
    planted = tmp_path / "planted.py"
    planted.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    words = {"steps": "1"} | ({} if config is None else {"config": config})
    checkpoint.save_weights(tmp_path / "weights.safetensors", {"w": torch.zeros(1)}, words)
    with pytest.raises(RunError, match="not what a run of this program wrote"):
        load_policy(tmp_path)
    assert not (tmp_path / "ran").exists()
