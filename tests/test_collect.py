"""The collector against a plain loop over Farama's environment."""

import threading
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from bebold import evaluation
from bebold.collect import Collector, Pipeline, to_arrays, to_tensors
from bebold.config import NetworkConfig, TrainConfig
from bebold.envs import make_envs
from bebold.gridworld.lockstep import farama_full_grid
from bebold.gridworld.tasks import find_task, make_farama
from bebold.methods.amigo import GoalNovelty
from bebold.methods.counts import EpisodicCounter
from bebold.methods.intrinsic import IntrinsicReward
from bebold.methods.keys import make_key
from bebold.networks import ActorCritic
from bebold.rollout import Rollout

TASK = "MiniGrid-Empty-5x5-v0"


def make_policy():
    torch.manual_seed(0)
    return ActorCritic((7, 7, 3), 7, NetworkConfig(hidden=8, memory=8))


def make_student(task):
    """AMIGo's student and teacher."""
    config = TrainConfig(task=task, method="amigo")
    return evaluation.make_policy(config, make_envs(task, 1, full_grid=True))


def make_collector(num_envs=3, unroll=50, task=TASK, key="observation", policy=None):
    envs = make_envs(task, num_envs, full_grid=policy is not None)
    guide = None if policy is None else policy.guide
    return Collector(
        envs,
        key=make_key(key),
        counter=EpisodicCounter.for_episodes(num_envs, find_task(task).max_steps),
        needs=frozenset({"image", "key"}) | (frozenset() if guide is None else GoalNovelty.needs),
        guide=guide,
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


@pytest.mark.parametrize("task", ["MiniGrid-Empty-5x5-v0", "MiniGrid-DoorKey-5x5-v0"])
def test_goals_are_those_of_a_plain_loop_over_farama_s_environment(task):
    policy = make_student(task)
    inner = torch.tensor([5 * x + y for x in (1, 2, 3) for y in (1, 2, 3)])
    # Goals within the walls, of which a random walk reaches many.
    policy.guide._choose = lambda grid, greedy, generator: inner[torch.randint(9, (len(grid),), generator=generator)]
    collector = make_collector(task=task, policy=policy, unroll=100)
    rollouts = [collector.collect(policy) for _ in range(3)]
    intrinsic = IntrinsicReward(GoalNovelty(policy.guide, max_steps=find_task(task).max_steps))
    happened = {"started": 0, "reached": 0, "missed": 0, "solved": 0}
    for b in range(3):
        env = make_farama(find_task(task))
        env.reset(seed=5 + b)
        grid, start, resets = farama_full_grid(env.unwrapped), True, False
        goal, set_on, age, was_reached = None, None, 0, False
        for rollout in rollouts:
            bonus = intrinsic.reward(rollout)
            ended_goals = []
            for t in range(rollout.num_steps):
                shown = {name: x[t, b] for name, x in rollout.obs.items()}
                if start or was_reached:
                    goal, set_on, age = int(shown["goal"]), grid, 0
                happened["started"] += start
                assert np.array_equal(shown["grid"], grid)
                assert np.array_equal(shown["goal_grid"], set_on)
                assert (shown["goal"], shown["goal_age"]) == (goal, age)
                before, earned, terminated, truncated = grid, 0.0, False, False
                if resets:
                    env.reset()
                else:
                    _, earned, terminated, truncated, _ = env.step(int(rollout.action[t, b]))
                grid = farama_full_grid(env.unwrapped)
                x, y = divmod(goal, grid.shape[1])
                was_reached = tuple(before[x, y]) != tuple(grid[x, y]) and not resets
                age += 1
                expected = 1 - 0.9 * age / env.unwrapped.max_steps if was_reached else 0.0
                if earned > 0:
                    expected = min(expected + earned, 1.0) + 1 - earned
                assert bonus[t, b] == pytest.approx(expected, abs=1e-6)
                if was_reached or terminated or truncated:
                    ended_goals.append([goal, age, was_reached, earned > 0])
                happened["reached"] += was_reached
                happened["missed"] += (terminated or truncated) and not was_reached
                happened["solved"] += earned > 0
                start, resets = resets, terminated or truncated
            _, outcome = intrinsic.novelty._finished(one_env(rollout, b))
            assert outcome.tolist() == ended_goals
        env.close()
    assert happened["reached"] > 1 and happened["started"] > 3
    if task == TASK:
        assert min(happened.values()) > 3


def one_env(rollout, b):
    """The rollout of one environment."""
    obs = {name: x[:, b : b + 1] for name, x in rollout.obs.items()}
    names = ("action", "reward", "terminated", "truncated", "starts")
    return replace(rollout, obs=obs, **{name: getattr(rollout, name)[:, b : b + 1] for name in names})


def test_a_saved_collector_keeps_its_goals(tmp_path):
    policy = make_student(TASK)
    collector = make_collector(policy=policy, unroll=70)
    collector.collect(policy)
    torch.save(collector.state_dict(), tmp_path / "state")
    state = torch.load(tmp_path / "state", weights_only=True)
    fresh = make_collector(policy=policy, unroll=70)
    fresh.load_state_dict(state)
    assert_equal(fresh.collect(policy), collector.collect(policy))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("goal", 25, "is none of the 25 cells"),
        ("goal", -1, "is none of the 25 cells"),
        ("goal_age", -1, "after the present step"),
    ],
)
def test_damaged_goals_are_refused(name, value, sentence):
    policy = make_student(TASK)
    collector = make_collector(policy=policy, unroll=5)
    before = collector.obs
    state = collector.state_dict()
    state["obs"] = state["obs"] | {name: torch.tensor([0, value, 0])}
    with pytest.raises(ValueError, match=sentence):
        collector.load_state_dict(state)
    assert collector.obs is before
    del state["obs"][name]
    with pytest.raises(ValueError, match="not of 3 environments"):
        collector.load_state_dict(state)


def test_damaged_goals_of_rollouts_that_wait_are_refused():
    policy = make_student(TASK)
    pipeline = Pipeline(make_collector(policy=policy, unroll=5), 1)
    pipeline.next(policy)
    state = pipeline.state_dict()
    state["waiting"][0]["obs"]["goal"][3, 1] = 25
    with pytest.raises(ValueError, match="is none of the 25 cells"):
        Pipeline(make_collector(policy=policy, unroll=5), 1).load_state_dict(state)


def test_behaviour_is_recorded_as_it_was():
    collector, policy = make_collector(), make_policy()
    collector.collect(policy)
    rollout = collector.collect(policy)
    with torch.no_grad():
        logits, value, _ = policy.unroll(rollout.obs, rollout.state, rollout.starts)
    chosen = logits[:-1].log_softmax(-1).gather(-1, rollout.action[..., None])[..., 0]
    torch.testing.assert_close(rollout.log_prob, chosen, rtol=2e-2, atol=2e-3)  # bfloat16 products
    torch.testing.assert_close(rollout.value, value, rtol=2e-2, atol=2e-3)


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


@pytest.mark.parametrize("lag", [0, 1])
def test_a_student_that_keeps_what_it_computed_acts_as_its_weights_say(lag, monkeypatch):
    monkeypatch.setattr("bebold.goal_networks.product", lambda x, weight, bias: x @ weight.t() + bias)
    task = "MiniGrid-DoorKey-5x5-v0"
    policy = make_student(task)
    pipeline = Pipeline(make_collector(num_envs=64, unroll=20, task=task, policy=policy), lag)
    weights = [deepcopy(policy.state_dict())]
    for k in range(3):
        rollout = pipeline.next(policy)
        reference = make_student(task)
        reference.load_state_dict(weights[max(k - lag, 0)])
        logits, value, _ = reference.unroll(rollout.obs, rollout.state, rollout.starts)
        expected = logits[:-1].log_softmax(-1).gather(-1, rollout.action[..., None])[..., 0]
        torch.testing.assert_close(rollout.log_prob, expected.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(rollout.value, value.detach(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            policy.convolutions[0].weight.mul_(1.5)
        weights.append(deepcopy(policy.state_dict()))


def test_a_student_computes_less_while_a_rollout_lasts(monkeypatch):
    task, multiplied, addmm = "MiniGrid-DoorKey-5x5-v0", [0], torch.addmm
    policy, here = make_student(task), threading.get_ident()

    def counting(bias, x, weight):
        # A collector of an earlier test may still be at the rollout that it collects ahead.
        multiplied[-1] += len(x) if threading.get_ident() == here else 0
        return addmm(bias, x, weight)

    monkeypatch.setattr(torch, "addmm", counting)
    for kept in (True, False):
        if not kept:
            monkeypatch.setattr(type(policy), "unchanged", lambda _: nullcontext())
        make_collector(num_envs=64, unroll=20, task=task, policy=policy).collect(policy)
        multiplied.append(0)
    assert 0 < multiplied[0] < 0.75 * multiplied[1]  # at least 64 rows, if any, are multiplied at once


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
    finished = 0
    for k in range(6):
        assert_equal(pipeline.next(policy), expected[k])
        finished += len(pipeline.finished_episodes())
        # With a lag, those of all rollouts that were there when this one was asked for.
        there = expected[: k + max(lag, 1)]
        if k + lag < 6:
            assert finished == sum(int(rollout.ended.sum()) for rollout in there)
        changed(policy, k)


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


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("action", lambda x: x + 7),
        ("action", lambda x: x[:, :2]),
        ("reward", lambda x: x.double()),
        ("starts", lambda x: x[1:]),
        ("episodic_count", lambda x: x - 5),
        ("state", lambda x: x[:1]),
        ("value", lambda x: x[1:]),
    ],
)
def test_damaged_rollouts_that_wait_are_refused(name, damage):
    pipeline = Pipeline(make_collector(unroll=20), 1)
    pipeline.next(make_policy())
    state = pipeline.state_dict()
    state["waiting"][0][name] = damage(state["waiting"][0][name])
    with pytest.raises(ValueError, match="other environments"):
        Pipeline(make_collector(unroll=20), 1).load_state_dict(state)


def test_what_fails_in_the_thread_is_raised():
    pipeline = Pipeline(make_collector(unroll=5), 1)
    pipeline.next(make_policy())
    pipeline.collector.envs.step = None
    with pytest.raises(TypeError):
        for _ in range(3):
            pipeline.next(make_policy())
