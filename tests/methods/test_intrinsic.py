"""The formula against bonuses worked out by hand and against a literal reading of Eq. 3."""

import copy
import random
import threading

import numpy as np
import pytest
import torch

from bebold.config import IntrinsicConfig
from bebold.errors import UsageError
from bebold.methods.build import build_intrinsic
from bebold.methods.counts import EpisodicCounter
from bebold.methods.intrinsic import (
    IntrinsicReward,
    first_visit,
    inverse_sqrt,
    novelty_change,
    novelty_difference,
)
from bebold.methods.novelty import AveragedNovelty, ConstantNovelty, CountNovelty, Novelty
from bebold.optimise import Peers


class Given(Novelty):
    """A measure that is told its values."""

    def __init__(self, values, kind="state"):
        super().__init__()
        self.values = torch.tensor(values)
        self.kind = kind

    def measure(self, rollout):
        return self.values


def column(*values, dtype=None):
    return torch.tensor(values, dtype=dtype)[:, None]


# One environment. o_0, o_1, o_2 are an episode's last three observations; the step from o_2 only resets;
# o_3, o_4, o_5 belong to the next episode, and o_5 is a second visit.
NOVELTY = [[0.2], [0.6], [0.9], [0.5], [1.0], [0.8]]
STARTS = column(False, False, False, True, False, False)
COUNTS = column(3, 1, 1, 1, 1, 2, dtype=torch.int32)


@pytest.mark.parametrize(
    ("difference", "restriction", "alpha", "expected"),
    [
        ("clipped", "first_visit", 1.0, [0.4, 0.3, 0.0, 0.5, 0.0]),
        ("clipped", "first_visit", 0.5, [0.5, 0.6, 0.0, 0.75, 0.0]),
        ("clipped", "none", 0.5, [0.5, 0.6, 0.0, 0.75, 0.3]),
        ("unclipped", "none", 1.0, [0.4, 0.3, 0.0, 0.5, -0.2]),
        ("unclipped", "first_visit", 1.0, [0.4, 0.3, 0.0, 0.5, 0.0]),
        ("none", "none", 1.0, [0.6, 0.9, 0.0, 1.0, 0.8]),
        ("none", "first_visit", 1.0, [0.6, 0.9, 0.0, 1.0, 0.0]),
        ("none", "inverse_sqrt", 1.0, [0.6, 0.9, 0.0, 1.0, 0.8 / 2**0.5]),
    ],
)
def test_bonuses_by_hand(rollout_of, difference, restriction, alpha, expected):
    intrinsic = IntrinsicReward(Given(NOVELTY), difference=difference, restriction=restriction, alpha=alpha)
    rollout = rollout_of(starts=STARTS, counts=COUNTS)
    bonus = intrinsic.reward(rollout)
    assert bonus.dtype == torch.float32
    torch.testing.assert_close(bonus, column(*expected))
    stats = intrinsic.update(rollout)
    assert stats["intrinsic/reward_mean"] == pytest.approx(sum(expected) / 4)
    assert stats["intrinsic/novelty_mean"] == pytest.approx((0.6 + 0.9 + 1.0 + 0.8) / 4)
    assert stats["intrinsic/first_visit_fraction"] == pytest.approx(3 / 4)


def test_a_step_into_a_blank_frame_is_paid_nothing(rollout_of):
    blank = column(True, True, False, True, True, True)
    rollout = rollout_of(starts=STARTS, counts=COUNTS, successor_valid=blank)
    bonus = IntrinsicReward(Given(NOVELTY), difference="clipped", restriction="first_visit").reward(rollout)
    torch.testing.assert_close(bonus, column(0.4, 0.0, 0.0, 0.5, 0.0))


def test_a_transition_measure_is_paid_as_it_is(rollout_of):
    measure = Given([[0.1], [0.2], [0.3], [0.4], [0.5]], kind="transition")
    rollout = rollout_of(starts=STARTS, counts=COUNTS)
    bonus = IntrinsicReward(measure, restriction="inverse_sqrt").reward(rollout)
    torch.testing.assert_close(bonus, column(0.1, 0.2, 0.0, 0.4, 0.5 / 2**0.5))


def test_pairings_that_mean_nothing_are_refused():
    for difference in ("clipped", "unclipped"):
        with pytest.raises(UsageError, match="Given measures transitions"):
            IntrinsicReward(Given([[1.0]], kind="transition"), difference=difference)
    with pytest.raises(UsageError, match="no difference 'squared'"):
        IntrinsicReward(ConstantNovelty(), difference="squared")
    with pytest.raises(UsageError, match="no restriction 'twice'"):
        IntrinsicReward(ConstantNovelty(), restriction="twice")


def test_pure_parts():
    n_t, n_tp1 = torch.rand(2, 50, 4).unbind()
    assert (novelty_difference(n_t, n_tp1, 0.0) == n_tp1).all()
    change = novelty_change(n_t, n_tp1, 0.7)
    assert (novelty_difference(n_t, n_tp1, 0.7) == torch.where(change > 0, change, 0.0)).all()
    counts = torch.tensor([1, 2, 4], dtype=torch.int32)
    assert first_visit(counts).tolist() == [1, 0, 0]
    assert inverse_sqrt(counts).tolist() == pytest.approx([1, 2**-0.5, 0.5])


def test_along_a_trajectory_the_difference_telescopes(rollout_of):
    """With α = 1, unclipped, an episode earns n(last) - n(first), whatever its way; clipped, no less."""
    novelty = torch.rand(30, 5, dtype=torch.float64)
    rollout = rollout_of(starts=torch.zeros(30, 5, dtype=torch.bool))
    unclipped = IntrinsicReward(Given(novelty.tolist()), difference="unclipped").reward(rollout).sum(dim=0)
    clipped = IntrinsicReward(Given(novelty.tolist()), difference="clipped").reward(rollout).sum(dim=0)
    torch.testing.assert_close(unclipped, (novelty[-1] - novelty[0]).float())
    assert (clipped >= unclipped).all()
    # Towards a frontier that is newer at each step, both earn the same, however many steps it takes.
    rising = novelty.sort(dim=0).values
    up = IntrinsicReward(Given(rising.tolist()), difference="clipped").reward(rollout).sum(dim=0)
    torch.testing.assert_close(up, (rising[-1] - rising[0]).float())


def literal_bonus(history, rollout_keys, starts, so_far, alpha):
    """BeBold's Eq. 2 by scanning the past, entry by entry.

    history : (key) of every observation counted before this rollout, in order; extended
    so_far : for each environment the keys of its present episode up to this rollout; extended
    """

    def n(key):
        return 1 / max(sum(other == key for other in history), 1)

    steps, num_envs = len(rollout_keys) - 1, len(rollout_keys[0])
    n_t = [n(rollout_keys[0][b]) for b in range(num_envs)]
    bonus = [[0.0] * num_envs for _ in range(steps)]
    for t in range(steps):
        for b in range(num_envs):
            key = rollout_keys[t + 1][b]
            history.append(key)
            n_tp1 = n(key)
            if starts[t + 1][b]:
                so_far[b] = [key]
            else:
                so_far[b].append(key)
                visits = sum(other == key for other in so_far[b])
                bonus[t][b] = max(n_tp1 - alpha * n_t[b], 0) * (1 if visits == 1 else 0)
            n_t[b] = n_tp1
    return bonus


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_counts_and_bonuses_equal_a_literal_reading_of_eq_2(rollout_of, seed, alpha):
    rng = random.Random(seed)
    num_envs, steps = 3, 13
    counter = EpisodicCounter.for_episodes(num_envs, 200)
    intrinsic = build_intrinsic("bebold-count", IntrinsicConfig(alpha=alpha), obs_shapes={})
    history, so_far = [], [[] for _ in range(num_envs)]

    def observe(start):
        keys = np.array([rng.randrange(9) for _ in range(num_envs)], np.uint64)
        starts = np.array([start or rng.random() < 0.15 for _ in range(num_envs)])
        return keys, starts, counter.visit(keys, starts)

    keys, starts, counts = observe(True)
    for b in range(num_envs):
        so_far[b].append(int(keys[b]))
    for _ in range(5):
        seen = [(keys, starts, counts)] + [observe(False) for _ in range(steps)]
        stacked = [torch.from_numpy(np.stack(column)) for column in zip(*seen, strict=True)]
        rollout = rollout_of(key=stacked[0].view(torch.int64), starts=stacked[1], counts=stacked[2])
        expected = literal_bonus(history, stacked[0].tolist(), stacked[1].tolist(), so_far, alpha)
        torch.testing.assert_close(intrinsic.reward(rollout), torch.tensor(expected))
        intrinsic.update(rollout)
        keys, starts, counts = seen[-1]


def test_blank_frames_are_not_counted(rollout_of):
    key = column(1, 1, 1, 2)
    novelty = CountNovelty()
    rollout = rollout_of(key=key, successor_valid=column(True, True, False, True))
    assert novelty.measure(rollout).flatten().tolist() == [1, 1, 1, 1]
    novelty.update(rollout)
    assert novelty.counter.count(np.array([1, 2], np.uint64)).tolist() == [1, 1]


def test_count_novelty_takes_any_power(rollout_of):
    rollout = rollout_of(key=torch.zeros(5, 1, dtype=torch.int64))
    n = CountNovelty(power=0.5).measure(rollout).flatten().tolist()
    assert n == pytest.approx([1, 1, 2**-0.5, 3**-0.5, 4**-0.5])


def test_averaged_novelty_is_the_mean_over_each_key(rollout_of):
    key = torch.tensor([[1, 2], [2, 2], [1, -9]])
    rollout = rollout_of(key=key, starts=torch.zeros(3, 2, dtype=torch.bool))
    novelty = AveragedNovelty(Given([[0.1, 0.4], [0.7, 1.0], [0.5, 0.2]]))
    expected = torch.tensor([[0.3, 0.7], [0.7, 0.7], [0.3, 0.2]])
    torch.testing.assert_close(novelty.measure(rollout), expected)
    assert novelty.needs == {"key"}
    blank = rollout_of(key=key, successor_valid=torch.tensor([[True, True], [True, True], [False, True]]))
    assert novelty.measure(blank)[0, 0] == pytest.approx(0.1)
    with pytest.raises(UsageError, match="Given measures transitions"):
        AveragedNovelty(Given([[0.1]], kind="transition"))


@pytest.mark.parametrize("method", ["bebold", "bebold-averaged", "bebold-count", "episodic", "none"])
def test_reward_is_pure(rollout_of, views_of, method):
    intrinsic = build_intrinsic(method, obs_shapes={"image": (7, 7, 3)})
    key = torch.randint(5, (9, 6))
    rollout = rollout_of(image=views_of(1), key=key)
    intrinsic.update(rollout)
    before, globally = copy.deepcopy(intrinsic.state_dict()), torch.get_rng_state()
    first, second = intrinsic.reward(rollout), intrinsic.reward(rollout)
    assert not first.requires_grad
    assert torch.equal(first, second)
    assert torch.equal(globally, torch.get_rng_state())
    assert_same(before, intrinsic.state_dict())


def assert_same(a, b):
    """Nested dicts and lists of tensors and plain values are equal."""
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for name in a:
            assert_same(a[name], b[name])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize("method", ["bebold", "bebold-averaged", "bebold-count"])
def test_resume_is_exact(rollout_of, views_of, method, tmp_path):
    def rollout(i):
        generator = torch.Generator().manual_seed(i)
        counts = torch.randint(1, 3, (9, 6), generator=generator, dtype=torch.int32)
        return rollout_of(image=views_of(i), key=torch.randint(9, (9, 6), generator=generator), counts=counts)

    shapes = {"image": (7, 7, 3)}
    through = build_intrinsic(method, obs_shapes=shapes, seed=3)
    through.update(rollout(0))
    torch.save(through.state_dict(), tmp_path / "state.pt")
    resumed = build_intrinsic(method, obs_shapes=shapes, seed=4)
    resumed.reward(rollout(1))  # whatever it has prepared for a rollout is forgotten
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for i in (1, 2):
        one = rollout(i)
        assert torch.equal(through.reward(one), resumed.reward(one))
        assert through.update(one) == resumed.update(one)
    assert_same(through.state_dict(), resumed.state_dict())


class Together(Peers):
    """Peers as threads of one process."""

    def __init__(self, rank, shared, barrier):
        self.rank, self.size, self._shared, self._barrier = rank, len(shared), shared, barrier

    def _exchange(self, tensor):
        self._shared[self.rank] = tensor.clone()
        self._barrier.wait()
        everyone = list(self._shared)
        self._barrier.wait()
        return everyone

    def average_(self, tensor):
        tensor.copy_(torch.stack(self._exchange(tensor)).mean(dim=0))

    def gather(self, tensor):
        return torch.cat(self._exchange(tensor))


@pytest.mark.parametrize("method", ["bebold", "bebold-count"])
def test_peers_share_what_they_learn(rollout_of, views_of, method):
    shared, barrier = [None, None], threading.Barrier(2, timeout=60)
    workers = [
        build_intrinsic(method, obs_shapes={"image": (7, 7, 3)}, peers=Together(rank, shared, barrier))
        for rank in range(2)
    ]

    def work(rank):
        for i in range(3):
            # One environment more on the second worker: lengths may differ.
            views = views_of(10 * i + rank, num_envs=6 + rank)
            key = views.flatten(2)[..., :1].long().squeeze(-1)
            workers[rank].update(rollout_of(image=views, key=key))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = (worker.state_dict() for worker in workers)
    assert_same(first, second)
    if method == "bebold-count":
        assert int(first["novelty._extra_state"]["counts"].sum()) == 3 * 8 * (6 + 7)
