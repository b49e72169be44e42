"""IMPALA's loss against a literal reading, step by step in plain Python."""

import math
from dataclasses import replace

import pytest
import torch
from experience import A, B, T, make_policy, make_rollout

from bebold import gru, products
from bebold.config import IMPALAConfig
from bebold.errors import RunError
from bebold.learners.impala import IMPALA
from bebold.optimise import Optimiser, Peers


def test_loss_is_the_literal_one(monkeypatch):
    for module in (gru, products):
        monkeypatch.setattr(module, "product_dtype", lambda: torch.float32)
    policy, rollout, bonus = make_policy(), make_rollout(), torch.rand(T, B)
    config = IMPALAConfig(entropy=0.01, value_loss=0.7, extrinsic_scale=3.0, reward_clip=1.0)
    impala = IMPALA(policy, config, coefficient=0.5)
    loss, _ = impala.loss(rollout, impala.reward(rollout, bonus))

    total = 0.0
    for b in range(B):
        probs, values, state = [], [], rollout.state[b : b + 1]
        for t in range(T + 1):
            with torch.no_grad():
                logits, value, state = policy.unroll(
                    {"image": rollout.obs["image"][t : t + 1, b : b + 1]}, state, rollout.starts[t : t + 1, b : b + 1]
                )
            probs.append(logits[0, 0].softmax(-1).tolist())
            values.append(float(value))
        target = [*values[:-1], values[-1]]
        for t in reversed(range(T)):
            reward = max(-1.0, min(1.0, 3.0 * float(rollout.reward[t, b]) + 0.5 * float(bonus[t, b])))
            end = bool(rollout.terminated[t, b] or rollout.truncated[t, b])
            ratio = probs[t][int(rollout.action[t, b])] / math.exp(float(rollout.log_prob[t, b]))
            rho = min(1.0, ratio)
            next_value, next_target = (0.0, 0.0) if end else (values[t + 1], target[t + 1])  # time-outs end it too
            delta = rho * (reward + 0.99 * next_value - values[t])
            target[t] = values[t] + delta + 0.99 * min(1.0, ratio) * (next_target - next_value)
            if rollout.starts[t + 1, b]:
                continue  # this step only reset
            advantage = rho * (reward + 0.99 * next_target - values[t])
            total -= math.log(probs[t][int(rollout.action[t, b])]) * advantage
            total += 0.7 * 0.5 * (target[t] - values[t]) ** 2
            total += 0.01 * sum(p * math.log(p) for p in probs[t])
    assert loss.item() == pytest.approx(total / B, rel=1e-4)


def test_a_blank_behind_a_time_out_is_worth_nothing():
    rollout, bonus = make_rollout(), torch.rand(T, B)
    timed_out = rollout.truncated & ~rollout.terminated
    shown = torch.ones(T + 1, B, dtype=torch.bool)
    shown[1:] = ~timed_out

    def loss(rollout):
        impala = IMPALA(make_policy(), IMPALAConfig(bootstrap_timeouts=True), coefficient=0.5)
        return impala.loss(rollout, impala.reward(rollout, bonus))[0].item()

    found = loss(replace(rollout, successor_valid=shown))
    assert found == loss(replace(rollout, terminated=rollout.terminated | timed_out))
    assert found != loss(rollout)


def test_an_unclamped_reward_is_the_sum():
    rollout, bonus = make_rollout(), 4 * torch.rand(T, B)
    impala = IMPALA(make_policy(), IMPALAConfig(reward_clip=0.0, extrinsic_scale=2.0), coefficient=0.5)
    assert torch.equal(impala.reward(rollout, bonus)[..., 0], 2.0 * rollout.reward + 0.5 * bonus)
    clamped = IMPALA(make_policy(), IMPALAConfig(extrinsic_scale=2.0), coefficient=0.5).reward(rollout, bonus)
    assert clamped.max() == 1.0


def test_rmsprop_is_the_equation():
    """Two steps by hand: v = 0.9 v + 0.1 g², x = x - lr g / (√v + ε)."""
    x = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimiser = Optimiser([x], learning_rate=0.1, algorithm="rmsprop", eps=0.01, rms_decay=0.9)
    expected, v = x.detach().clone().double(), torch.zeros(2).double()
    for _ in range(2):
        gradient = 3 * expected**2
        v = 0.9 * v + 0.1 * gradient**2
        optimiser.step((x**3).sum())
        expected = expected - 0.1 * gradient / (v.sqrt() + 0.01)
        torch.testing.assert_close(x.detach().double(), expected)


def test_losses_are_sums_over_time_and_means_over_environments():
    """Twice the environments leave the loss as it is."""
    rollout, bonus = make_rollout(), torch.rand(T, B)
    double = {
        name: torch.cat((x, x), dim=1)
        for name in ("action", "reward", "terminated", "truncated", "starts", "episodic_count", "log_prob")
        for x in (getattr(rollout, name),)
    }
    twice = replace(
        rollout,
        obs={"image": torch.cat((rollout.obs["image"],) * 2, dim=1)},
        value=torch.cat((rollout.value,) * 2, dim=1),
        state=torch.cat((rollout.state,) * 2),
        **double,
    )
    losses = []
    for given, paid in ((rollout, bonus), (twice, torch.cat((bonus, bonus), dim=1))):
        impala = IMPALA(make_policy(), IMPALAConfig(), coefficient=0.5)
        losses.append(impala.loss(given, impala.reward(given, paid))[0])
    torch.testing.assert_close(*losses)


def test_update_makes_rewarded_actions_likelier_even_from_old_weights():
    policy = make_policy()
    impala = IMPALA(policy, IMPALAConfig(learning_rate=3e-3), coefficient=0.0)
    base = make_rollout()
    behaviour = torch.full((T, B, A), 1 / A).log()
    for turn in range(150):
        action = torch.randint(0, A, (T, B), generator=torch.Generator().manual_seed(turn))
        rollout = replace(
            base,
            action=action,
            reward=(action == 3).float(),
            terminated=torch.ones(T, B, dtype=torch.bool),
            truncated=torch.zeros(T, B, dtype=torch.bool),
            starts=torch.zeros(T + 1, B, dtype=torch.bool),
            log_prob=behaviour.gather(-1, action[..., None])[..., 0],
        )
        stats = impala.update(rollout, torch.zeros(T, B))
    with torch.no_grad():
        logits, _, _ = policy.unroll({"image": base.obs["image"]}, base.state, rollout.starts)
    assert logits.softmax(-1)[..., 3].mean() > 0.9
    assert stats["losses/entropy"] < math.log(A) / 2


def test_the_learning_rate_falls_to_zero():
    moved = {}
    for progress in (0.0, 0.75):
        policy = make_policy()
        before = torch.cat([p.detach().flatten() for p in policy.parameters()])
        IMPALA(policy, IMPALAConfig(), coefficient=0.1).update(make_rollout(), torch.rand(T, B), progress=progress)
        moved[progress] = (torch.cat([p.detach().flatten() for p in policy.parameters()]) - before).abs().max().item()
    assert moved[0.75] == pytest.approx(0.25 * moved[0.0], rel=0.3)


def test_a_loss_that_is_not_finite_is_refused_and_changes_nothing():
    policy = make_policy()
    before = [p.detach().clone() for p in policy.parameters()]
    with pytest.raises(RunError, match="lower the learning rate"):
        IMPALA(policy, IMPALAConfig(), coefficient=1.0).update(make_rollout(), torch.full((T, B), float("nan")))
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))


def test_state_goes_on_where_it_was(tmp_path):
    rollout, bonus = make_rollout(heads=2), torch.rand(T, B)
    one, other = (IMPALA(make_policy(2), IMPALAConfig(), coefficient=0.1, peers=Peers()) for _ in range(2))
    one.update(rollout, bonus)
    torch.save(one.state_dict(), tmp_path / "state")
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert one.update(rollout, bonus, progress=0.5) == other.update(rollout, bonus, progress=0.5)
    pairs = zip(one.policy.parameters(), other.policy.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
