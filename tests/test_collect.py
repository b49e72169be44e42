"""The collector against a plain loop over Farama's environment."""

from dataclasses import fields

import numpy as np
import pytest
import torch

from bebold.collect import Collector, Pipeline, to_arrays, to_tensors
from bebold.config import NetworkConfig
from bebold.envs import make_envs
from bebold.gridworld.tasks import find_task, make_farama
from bebold.methods.counts import EpisodicCounter
from bebold.methods.keys import make_key
from bebold.networks import ActorCritic
from bebold.rollout import Rollout

TASK = "MiniGrid-Empty-5x5-v0"


def make_policy():
    torch.manual_seed(0)
    return ActorCritic((7, 7, 3), 7, NetworkConfig(hidden=8, memory=8))


def make_collector(num_envs=3, unroll=50, task=TASK, key="observation"):
    envs = make_envs(task, num_envs)
    return Collector(
        envs,
        key=make_key(key),
        counter=EpisodicCounter.for_episodes(num_envs, find_task(task).max_steps),
        needs=frozenset({"image", "key"}),
        unroll=unroll,
        seed=5,
        action_seed=11,
    )


def test_rollouts_are_what_farama_plays():
    collector, policy = make_collector(), make_policy()
    rollouts = [collector.collect(policy) for _ in range(4)]
    assert sum(len(r.action) for r in rollouts) == 200
    ends = 0
    for b in range(3):
        env = make_farama(find_task(TASK))
        view, _ = env.reset(seed=5 + b)
        counts = {}
        resets = False
        start = True
        for rollout in rollouts:
            for t in range(rollout.num_steps):
                key = view["image"].tobytes()
                counts[key] = counts.get(key, 0) + 1
                assert np.array_equal(rollout.obs["image"][t, b], view["image"])
                assert rollout.starts[t, b] == start
                assert rollout.episodic_count[t, b] == counts[key]
                assert rollout.valid[t, b] == (not resets)
                if resets:
                    view, _ = env.reset()
                    reward, terminated, truncated = 0.0, False, False
                    counts = {}
                else:
                    view, reward, terminated, truncated, _ = env.step(int(rollout.action[t, b]))
                assert rollout.reward[t, b] == np.float32(reward)
                assert rollout.terminated[t, b] == terminated
                assert rollout.truncated[t, b] == truncated
                start, resets = resets, terminated or truncated
                ends += resets
            assert np.array_equal(rollout.obs["image"][-1, b], view["image"])
            # The next rollout shows this observation again, as its first: it is one visit, not two.
            assert rollout.episodic_count[-1, b] == counts.get(view["image"].tobytes(), 0) + 1
        env.close()
    assert ends > 3
    assert len(collector.finished_episodes()) == ends
    assert collector.finished_episodes() == []


def test_behaviour_is_recorded_as_it_was():
    collector, policy = make_collector(), make_policy()
    collector.collect(policy)
    rollout = collector.collect(policy)
    with torch.no_grad():
        logits, value, _ = policy.unroll(rollout.obs, rollout.state, rollout.starts)
    torch.testing.assert_close(rollout.logits, logits[:-1], rtol=2e-2, atol=2e-3)  # bfloat16 products
    torch.testing.assert_close(rollout.value, value, rtol=2e-2, atol=2e-3)
    chosen = rollout.logits.log_softmax(-1).gather(-1, rollout.action[..., None])[..., 0]
    torch.testing.assert_close(rollout.log_prob, chosen)


@pytest.mark.parametrize("key", ["observation", "full_state", "position", "pose", "contact"])
def test_a_saved_collector_goes_on_as_if_nothing_had_happened(key, tmp_path):
    policy = make_policy()
    collector = make_collector(unroll=70, key=key)
    collector.collect(policy)
    torch.save(collector.state_dict(), tmp_path / "state")
    expected = collector.collect(policy)
    fresh = make_collector(unroll=70, key=key)
    fresh.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    resumed = fresh.collect(policy)
    for name in ("action", "reward", "starts", "episodic_count", "log_prob", "value", "state"):
        assert torch.equal(getattr(resumed, name), getattr(expected, name)), name
    for name in expected.obs:
        assert torch.equal(resumed.obs[name], expected.obs[name])


@pytest.mark.parametrize("name", ["obs", "starts", "ended", "state"])
def test_a_state_of_other_environments_is_refused(name):
    collector, policy = make_collector(num_envs=3), make_policy()
    collector.collect(policy)
    other = make_collector(num_envs=4)
    other.collect(policy)
    state = collector.state_dict() | {name: other.state_dict()[name]}
    with pytest.raises(ValueError, match="not of 3 environments"):
        collector.load_state_dict(state)


def test_arrays_survive_as_tensors():
    arrays = {
        "u64": np.array([0, 2**64 - 1], np.uint64),
        "u8": np.arange(3, dtype=np.uint8),
        "flags": np.array([True, False]),
        "words": "name",
    }
    back = to_arrays(to_tensors(arrays))
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            assert back[name].dtype == value.dtype
            assert np.array_equal(back[name], value)
    assert back["words"] == "name"


def changed(policy, turn):
    """What a learner does to the weights, in this test."""
    with torch.no_grad():
        policy.memory_head.bias[turn % 7] += 1.0


def assert_equal(one, other):
    for field in fields(Rollout):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if field.name == "obs":
            assert a.keys() == b.keys()
            assert all(torch.equal(a[name], b[name]) for name in a)
        else:
            assert a is b is None or torch.equal(a, b)


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_the_acting_weights_are_a_fixed_number_of_updates_behind(lag):
    """Rollout k is of the weights after max(k - lag, 0) updates, while k updates have been made when it is learnt."""
    policy, reference, collector = make_policy(), make_policy(), make_collector(unroll=20)
    expected = []
    for k in range(6):
        if k > lag:
            changed(reference, k - lag - 1)
        expected.append(collector.collect(reference))
    pipeline = Pipeline(make_collector(unroll=20), lag)
    finished = []
    for k in range(6):
        assert_equal(pipeline.next(policy), expected[k])
        finished += pipeline.finished_episodes()
        changed(policy, k)
    ended = sum(int(rollout.ended.sum()) for rollout in expected)
    assert len(finished) >= ended - 3


@pytest.mark.parametrize("lag", [0, 2])
def test_a_saved_pipeline_goes_on_as_if_nothing_had_happened(lag, tmp_path):
    policy, pipeline = make_policy(), Pipeline(make_collector(unroll=70), lag)
    for turn in range(3):
        pipeline.next(policy)
        changed(policy, turn)
    pipeline.finished_episodes()
    torch.save(pipeline.state_dict(), tmp_path / "state")
    fresh = Pipeline(make_collector(unroll=70), lag)
    fresh.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for turn in range(4):
        one, other = pipeline.next(policy), fresh.next(policy)
        assert_equal(one, other)
        assert pipeline.finished_episodes() == fresh.finished_episodes()
        changed(policy, turn)


def test_a_pipeline_of_another_lag_or_other_environments_is_refused():
    policy, pipeline = make_policy(), Pipeline(make_collector(unroll=20), 2)
    pipeline.next(policy)
    state = pipeline.state_dict()
    with pytest.raises(ValueError, match="2 rollouts wait in it, and policy_lag is 1"):
        Pipeline(make_collector(unroll=20), 1).load_state_dict(state)
    with pytest.raises(ValueError, match="other environments"):
        Pipeline(make_collector(unroll=30), 2).load_state_dict(state)


def test_what_fails_in_the_thread_is_raised():
    pipeline = Pipeline(make_collector(unroll=5), 1)
    pipeline.next(make_policy())
    pipeline.collector.envs.step = None
    with pytest.raises(TypeError):
        for _ in range(3):
            pipeline.next(make_policy())
