"""Advantages against a literal reading of the sum they stand for."""

import pytest
import torch

from bebold.returns import discounts, gae, reward_streams, vtrace


def literal_gae(reward, value, discount, lambda_):
    """A_t = Σ_k (Π_{j<k} γ_{t+j} λ_{t+j}) δ_{t+k}, one environment at a time."""
    steps, num_envs = reward.shape
    advantage = torch.zeros(steps, num_envs)
    for b in range(num_envs):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                delta = reward[k, b] + discount[k, b] * value[k + 1, b] - value[k, b]
                advantage[t, b] += weight * delta
                weight *= float(discount[k, b] * lambda_[k, b])
    return advantage


def test_gae_is_the_literal_sum():
    generator = torch.Generator().manual_seed(1)
    reward = torch.randn(12, 5, generator=generator)
    value = torch.randn(13, 5, generator=generator)
    terminated = torch.rand(12, 5, generator=generator) < 0.2
    truncated = torch.rand(12, 5, generator=generator) < 0.2
    discount = discounts(terminated, truncated, 0.9, bootstrap_timeouts=True)
    lambda_ = 0.8 * (~(terminated | truncated)).float()
    expected = literal_gae(reward, value, discount, lambda_)
    torch.testing.assert_close(gae(reward, value, discount, lambda_), expected)


@pytest.mark.parametrize(
    ("terminated", "truncated", "bootstrap", "expected"),
    [
        (False, False, True, 0.9),
        (True, False, True, 0.0),
        (False, True, True, 0.9),
        (False, True, False, 0.0),
        (True, True, True, 0.0),  # success on the last allowed step
    ],
)
def test_what_cuts_the_future(terminated, truncated, bootstrap, expected):
    discount = discounts(torch.tensor([terminated]), torch.tensor([truncated]), 0.9, bootstrap_timeouts=bootstrap)
    assert discount.item() == pytest.approx(expected)


def test_a_time_out_is_worth_the_value_it_cut_off():
    """By hand: two steps, the second ends by time-out, V = (1, 2, 3), r = (0, 1), γ = 0.5, λ = 1."""
    reward, value = torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0, 3.0])
    ends = torch.tensor([False, True])
    lambda_ = 1.0 * (~ends).float()
    bootstrapped = discounts(~ends & ends, ends, 0.5, bootstrap_timeouts=True)
    # δ_1 = 1 + 0.5·3 - 2 = 0.5; δ_0 = 0 + 0.5·2 - 1 = 0; A_0 = 0 + 0.5·0.5 = 0.25
    assert gae(reward, value, bootstrapped, lambda_).tolist() == [0.25, 0.5]
    terminal = discounts(~ends & ends, ends, 0.5, bootstrap_timeouts=False)
    # δ_1 = 1 - 2 = -1; A_0 = 0 - 0.5
    assert gae(reward, value, terminal, lambda_).tolist() == [-0.5, -1.0]


def test_value_heads_are_independent():
    generator = torch.Generator().manual_seed(2)
    reward = torch.randn(7, 3, 2, generator=generator)
    value = torch.randn(8, 3, 2, generator=generator)
    discount, lambda_ = torch.full((7, 3, 1), 0.9), torch.full((7, 3, 1), 0.95)
    both = gae(reward, value, discount, lambda_)
    for head in range(2):
        alone = gae(reward[..., head], value[..., head], discount[..., 0], lambda_[..., 0])
        torch.testing.assert_close(both[..., head], alone)


def literal_vtrace(log_ratio, reward, value, discount, ends, rho_clip, c_clip):
    """v_s = V(x_s) + Σ_t γ^{t-s} (Π_{s≤i<t} c_i) δ_t V (Espeholt et al. 2018, Eq. 1), up to the episode's end."""
    steps, num_envs = reward.shape
    ratio = log_ratio.exp()
    target, advantage = torch.zeros(steps, num_envs), torch.zeros(steps, num_envs)
    for b in range(num_envs):

        def rho(t, b=b):
            return min(rho_clip, float(ratio[t, b]))

        def delta(t, b=b):
            return rho(t) * (reward[t, b] + discount[t, b] * value[t + 1, b] - value[t, b])

        for s in range(steps):
            total, weight = value[s, b], 1.0
            for t in range(s, steps):
                total = total + weight * delta(t)
                weight *= float(discount[t, b]) * min(c_clip, float(ratio[t, b]))
                if ends[t, b]:
                    break
            target[s, b] = total
        for s in range(steps):
            following = value[s + 1, b] if ends[s, b] or s + 1 == steps else target[s + 1, b]
            advantage[s, b] = rho(s) * (reward[s, b] + discount[s, b] * following - value[s, b])
    return target, advantage


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize(("rho_clip", "c_clip"), [(1.0, 1.0), (2.0, 0.5)])
def test_vtrace_is_the_literal_sum(bootstrap, rho_clip, c_clip):
    generator = torch.Generator().manual_seed(3)
    log_ratio = 0.5 * torch.randn(12, 5, generator=generator)
    reward = torch.randn(12, 5, generator=generator)
    value = torch.randn(13, 5, generator=generator)
    terminated = torch.rand(12, 5, generator=generator) < 0.15
    truncated = torch.rand(12, 5, generator=generator) < 0.15
    ends = terminated | truncated
    discount = discounts(terminated, truncated, 0.9, bootstrap_timeouts=bootstrap)
    expected = literal_vtrace(log_ratio, reward, value, discount, ends, rho_clip, c_clip)
    result = vtrace(log_ratio, reward, value, discount, (~ends).float(), rho_clip=rho_clip, c_clip=c_clip)
    for got, wanted in zip(result, expected, strict=True):
        torch.testing.assert_close(got, wanted)


def test_on_the_policys_own_experience_vtrace_is_the_return():
    """Ratios 1: v_t is the n-step return up to the end of the rollout, as GAE's with λ = 1."""
    generator = torch.Generator().manual_seed(4)
    reward, value = torch.randn(9, 4, generator=generator), torch.randn(10, 4, generator=generator)
    discount, lambda_ = torch.full((9, 4), 0.9), torch.ones(9, 4)
    target, advantage = vtrace(torch.zeros(9, 4), reward, value, discount, lambda_)
    expected = gae(reward, value, discount, lambda_)
    torch.testing.assert_close(target, expected + value[:-1])
    torch.testing.assert_close(advantage, expected)


def test_reward_streams():
    extrinsic, intrinsic = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 0.25]])
    assert reward_streams(extrinsic, intrinsic, 1).tolist() == [[[1.5], [2.25]]]
    assert reward_streams(extrinsic, intrinsic, 2).tolist() == [[[1.0, 0.5], [2.0, 0.25]]]
