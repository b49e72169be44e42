"""One policy earns the same on our engine as on Farama's environments, level by level."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from bebold import checkpoint
from bebold.config import NetworkConfig, TrainConfig
from bebold.envs import make_envs, make_farama_envs
from bebold.errors import RunError, UsageError
from bebold.evaluation import PROGRESS_SEED, TEST_SEED, evaluate, load_policy, make_policy, play
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


def test_playing_in_one_batch_is_playing_alone():
    """Greedy play of a level does not depend on which other levels are played beside it."""
    task = "MiniGrid-Empty-Random-5x5-v0"
    policy = make_policy(TrainConfig(task=task, network=SMALL), make_envs(task, 1))
    together = play(policy, make_envs(task, 6), range(6), greedy=True)
    alone = [play(policy, make_envs(task, 1), [seed], greedy=True).returns[0] for seed in range(6)]
    assert together.returns.tolist() == alone


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
