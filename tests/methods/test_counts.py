"""Counters against Python's dicts."""

from collections import Counter

import numpy as np
import pytest
import torch

from bebold.errors import UsageError
from bebold.methods.counts import UNSTORED, EpisodicCounter, LifelongCounter


class DictCounter:
    """The meaning of `EpisodicCounter`, one dict an environment."""

    def __init__(self, num_envs, limit):
        self.tables = [{} for _ in range(num_envs)]
        self.limit = limit
        self.saturated = 0

    def visit(self, keys, starts):
        return [self._visit(b, key, start) for b, (key, start) in enumerate(zip(keys, starts, strict=True))]

    def _visit(self, b, key, start):
        if start:
            self.tables[b] = {}
        table = self.tables[b]
        if key not in table and len(table) >= self.limit:
            self.saturated += 1
            return 2
        table[key] = table.get(key, 0) + 1
        return table[key]


def walk(seed, steps, num_envs, kinds, start_probability):
    rng = np.random.default_rng(seed)
    # Small numbers and their neighbours at 2^64: the counter may not rely on well-mixed keys.
    names = np.arange(kinds, dtype=np.uint64) - np.uint64(kinds // 2)
    for _ in range(steps):
        yield names[rng.integers(kinds, size=num_envs)], rng.random(num_envs) < start_probability


@pytest.mark.parametrize(("kinds", "capacity"), [(40, 128), (40, 32), (5, 2), (300, 64)])
def test_episodic_counter_equals_dicts_also_when_full(kinds, capacity):
    counter, reference = EpisodicCounter(7, capacity), DictCounter(7, capacity * 3 // 4)
    for keys, starts in walk(kinds, 2000, 7, kinds, 0.01):
        counts = counter.visit(keys, starts)
        assert counts.dtype == np.int32
        assert counts.tolist() == reference.visit(keys.tolist(), starts)
    assert counter.saturated == reference.saturated
    assert (counter.saturated > 0) == (kinds > capacity * 3 // 4)


def test_episodic_counter_clears_first_then_inserts():
    counter = EpisodicCounter(1, 8)
    key, start, go_on = np.array([5], np.uint64), np.array([True]), np.array([False])
    assert [int(counter.visit(key, s)[0]) for s in (start, go_on, start, go_on)] == [1, 2, 1, 2]


def test_episodic_counter_goes_on_from_its_state():
    counter = EpisodicCounter(5, 64)
    steps = list(walk(3, 600, 5, 60, 0.02))
    for keys, starts in steps[:300]:
        counter.visit(keys, starts)
    state = counter.state_dict()
    assert len(state["keys"]) < 5 * 48
    assert state["keys"].dtype == np.int64
    shuffled = np.random.default_rng(0).permutation(len(state["keys"]))
    restored = EpisodicCounter(5, 64)
    restored.visit(np.arange(5, dtype=np.uint64), np.ones(5, bool))  # what was there before is forgotten
    restored.load_state_dict(
        state | {name: torch.from_numpy(state[name][shuffled]) for name in ("keys", "counts", "envs")}
    )
    again = restored.state_dict()
    assert all(np.array_equal(state[name], again[name]) for name in state)
    for keys, starts in steps[300:]:
        assert counter.visit(keys, starts).tolist() == restored.visit(keys, starts).tolist()
    assert counter.saturated == restored.saturated


def test_episodic_counter_refuses_a_state_that_does_not_fit():
    counter = EpisodicCounter(4, 16)
    for key in range(12):
        counter.visit(np.full(4, key, np.uint64), np.zeros(4, bool))
    for other in (EpisodicCounter(5, 16), EpisodicCounter(4, 8)):
        with pytest.raises(UsageError, match="do not fit"):
            other.load_state_dict(counter.state_dict())


def entries(**changes):
    """A state of two entries in two environments, both as `EpisodicCounter` and as `LifelongCounter` save it."""
    state = {
        "keys": np.array([7, -8], np.int64),
        "counts": np.array([1, 2], np.int32),
        "envs": np.array([0, 1], np.int32),
        "num_envs": 2,
        "saturated": 0,
    }
    return state | changes


DAMAGED = {
    "fewer counts than keys": {"counts": np.array([1])},
    "fewer keys than counts": {"keys": np.array([7])},
    "no counts": {"counts": None},
    "counts that are no numbers": {"counts": np.array(["1", "2"])},
    "counts that are not whole": {"counts": np.array([1.0, 2.0])},
    "truth values": {"counts": np.array([True, True])},
    "objects": {"keys": np.array([7, -8], object)},
    "a key of one number": {"keys": np.int64(7)},
    "a table of keys": {"keys": np.array([[7], [-8]])},
    "keys of 32 bits": {"keys": np.array([7, -8], np.int32)},
    "a key twice": {"keys": np.array([7, 7]), "envs": np.array([1, 1])},
    "a count of zero": {"counts": np.array([1, 0])},
    "a negative count": {"counts": np.array([-1, 2])},
    "a count beyond 32 bits": {"counts": np.array([1, 2**32])},
    "a count beyond 63 bits": {"counts": np.array([1, 2**63], np.uint64)},
    "a negative saturation": {"saturated": -1},
    "no saturation": {"saturated": None},
    "a saturation that is no whole number": {"saturated": 0.5},
}
DAMAGED_ENVS = {
    "fewer environments than keys": {"envs": np.array([0])},
    "an environment below the first": {"envs": np.array([0, -1])},
    "an environment beyond the last": {"envs": np.array([0, 2])},
    "an environment far beyond": {"envs": np.array([0, 2**62])},
    "an environment beyond 63 bits": {"envs": np.array([0, 2**64 - 1], np.uint64)},
    "a number of environments that is none": {"num_envs": "2"},
    "counts that int32 cannot return": {"counts": np.array([1, 2**31])},
}


@pytest.mark.parametrize("damage", DAMAGED | DAMAGED_ENVS)
def test_episodic_counter_refuses_a_damaged_state_and_keeps_its_own(damage):
    counter = EpisodicCounter(2, 8)
    counter.load_state_dict(entries())
    with pytest.raises(UsageError, match=r"damaged|do not fit"):
        counter.load_state_dict(entries(**(DAMAGED | DAMAGED_ENVS)[damage]))
    assert counter.visit(np.array([7, 9], np.uint64), np.zeros(2, bool)).tolist() == [2, 1]
    assert counter.visit(np.array([8, 2**64 - 8], np.uint64), np.zeros(2, bool)).tolist() == [1, 3]


@pytest.mark.parametrize("damage", DAMAGED)
def test_lifelong_counter_refuses_a_damaged_state_and_keeps_its_own(damage):
    counter = LifelongCounter(16)
    counter.load_state_dict(entries())
    with pytest.raises(UsageError, match="damaged"):
        counter.load_state_dict(entries(**DAMAGED[damage]))
    assert counter.count(np.array([7, 2**64 - 8, 9], np.uint64)).tolist() == [1, 2, 0]
    assert (counter.size, counter.saturated) == (2, 0)


@pytest.mark.parametrize("max_steps", [0, 1, 120, 480, 511, 3600])
def test_capacity_for_episodes_is_a_power_of_two_at_most_half_full(max_steps):
    capacity = EpisodicCounter.for_episodes(1, max_steps).capacity
    assert 2 * (max_steps + 1) <= capacity < 4 * (max_steps + 1)
    assert capacity & (capacity - 1) == 0


def test_a_longest_episode_never_saturates():
    counter = EpisodicCounter.for_episodes(2, 120)
    for episode in range(3):
        for step in range(121):
            keys = np.array([step, step + 1000 * episode], np.uint64)
            assert (counter.visit(keys, np.full(2, step == 0)) == 1).all()
    assert counter.saturated == 0


@pytest.mark.parametrize(("num_envs", "capacity"), [(0, 8), (1, 1), (1, 12)])
def test_impossible_sizes_are_refused(num_envs, capacity):
    with pytest.raises(UsageError, match="power of two"):
        EpisodicCounter(num_envs, capacity)
    if num_envs:
        with pytest.raises(UsageError, match="power of two"):
            LifelongCounter(capacity)


def test_episodic_counter_refuses_another_number_of_environments():
    with pytest.raises(ValueError, match="3 keys"):
        EpisodicCounter(4, 8).visit(np.zeros(3, np.uint64), np.zeros(3, bool))


def test_lifelong_counter_equals_counter_while_it_grows():
    rng = np.random.default_rng(1)
    counter, reference = LifelongCounter(), Counter()
    for _ in range(30):
        keys = rng.integers(200_000, size=10_000).astype(np.uint64)
        times = rng.integers(1, 4, size=10_000)
        counter.add(keys, times)
        for key, n in zip(keys.tolist(), times.tolist(), strict=True):
            reference[key] += n
    probe = rng.integers(250_000, size=10_000).astype(np.uint64)
    counts = counter.count(probe)
    assert counts.dtype == np.int64
    assert counts.tolist() == [reference[key] for key in probe.tolist()]
    assert counter.size == len(reference)
    assert counter.saturated == 0
    assert len(counter._keys) == 2**18  # grown to what it holds, far below its limit of 2^24


def test_a_full_lifelong_counter_warns_once_and_takes_the_rest_for_familiar():
    counter = LifelongCounter(16)
    keys = np.arange(20, dtype=np.uint64)
    with pytest.warns(RuntimeWarning, match=r"full at 12 states.*count_capacity"):
        counter.add(keys)
    counter.add(keys, np.full(20, 2))  # a second warning would fail this test
    assert counter.full
    assert counter.count(keys).tolist() == [3] * 12 + [UNSTORED] * 8
    assert counter.saturated == 8 + 16


def test_lifelong_counter_goes_on_from_its_state():
    rng = np.random.default_rng(2)
    counter = LifelongCounter()
    counter.add(rng.integers(2**64, size=100_000, dtype=np.uint64))
    state = counter.state_dict()
    shuffled = rng.permutation(len(state["keys"]))
    restored = LifelongCounter()
    restored.add(np.arange(10, dtype=np.uint64))
    restored.load_state_dict(state | {n: torch.from_numpy(state[n][shuffled]) for n in ("keys", "counts")})
    again = restored.state_dict()
    assert all(np.array_equal(state[name], again[name]) for name in state)
    with pytest.raises(UsageError, match="count_capacity"):
        LifelongCounter(1024).load_state_dict(state)
