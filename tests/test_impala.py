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


def literal_loss(policy, rollout, bonus, config, coefficient):
    """The loss as the paper writes it: v_s = V_s + Σ_t (γ c)_s..t-1 δ_t up to the end of the episode, for each head."""
    logits, value, _ = policy.unroll(rollout.obs, rollout.state, rollout.starts)
    log_probs, known = logits.log_softmax(-1), value.detach()
    taken = log_probs[:-1].gather(-1, rollout.action[..., None])[..., 0]
    ratio = (taken.detach() - rollout.log_prob).exp().clamp(max=1.0)
    streams = config.extrinsic_scale * rollout.reward, coefficient * bonus
    reward = torch.stack(streams if value.shape[-1] == 2 else (sum(streams),), dim=-1)
    reward = reward.clamp(-config.reward_clip, config.reward_clip)

    def ends(t, b):
        return bool(rollout.terminated[t, b] or rollout.truncated[t, b])

    def discounted(t, b, following):
        worthless = rollout.terminated[t, b] if config.bootstrap_timeouts else ends(t, b)
        return 0.0 if worthless else config.discount * following

    def target(s, b, h):
        v, weight = known[s, b, h], 1.0
        for t in range(s, T):
            delta = ratio[t, b] * (reward[t, b, h] + discounted(t, b, known[t + 1, b, h]) - known[t, b, h])
            v = v + weight * delta
            if ends(t, b):
                break
            weight = weight * config.discount * ratio[t, b]
        return v

    total = torch.tensor(0.0)
    for t, b in rollout.valid.nonzero().tolist():  # the others only reset
        for h in range(value.shape[-1]):
            following = known[t + 1, b, h] if ends(t, b) else target(t + 1, b, h)
            advantage = ratio[t, b] * (reward[t, b, h] + discounted(t, b, following) - known[t, b, h])
            total = total - taken[t, b] * advantage
            total = total + config.value_loss * 0.5 * (target(t, b, h) - value[t, b, h]) ** 2
        total = total + config.entropy * (log_probs[t, b].exp() * log_probs[t, b]).sum()
    return total / B


@pytest.mark.parametrize("bootstrap_timeouts", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_loss_and_gradient_are_the_literal_ones(monkeypatch, heads, bootstrap_timeouts):
    for module in (gru, products):
        monkeypatch.setattr(module, "product_dtype", lambda: torch.float32)
    policy, rollout, bonus = make_policy(heads), make_rollout(heads), torch.rand(T, B)
    assert rollout.ended.any() and not rollout.valid.all()
    config = IMPALAConfig(
        entropy=0.01, value_loss=0.7, extrinsic_scale=3.0, reward_clip=1.0, bootstrap_timeouts=bootstrap_timeouts
    )
    impala = IMPALA(policy, config, coefficient=0.5)
    loss, _ = impala.loss(rollout, impala.reward(rollout, bonus))
    expected = literal_loss(policy, rollout, bonus, config, 0.5)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    parameters = list(policy.own_parameters())
    found, literal = (torch.autograd.grad(x, parameters) for x in (loss, expected))
    for one, other in zip(found, literal, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


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
    config = IMPALAConfig(reward_clip=1.0, extrinsic_scale=2.0)
    assert IMPALA(make_policy(), config, coefficient=0.5).reward(rollout, bonus).max() == 1.0


def test_each_share_of_the_environments_is_learnt_from_in_a_step_of_its_own():
    shown = torch.rand(T + 1, B) < 0.8
    rollout, bonus = replace(make_rollout(heads=2), successor_valid=shown), torch.rand(T, B)
    together, apart = (IMPALA(make_policy(2), IMPALAConfig(minibatches=count), coefficient=0.5) for count in (2, 1))
    stats, expected = together.update(rollout, bonus), []
    for envs in (slice(None, B // 2), slice(B // 2, None)):
        steps = (
            "action",
            "reward",
            "terminated",
            "truncated",
            "starts",
            "episodic_count",
            "log_prob",
            "value",
            "successor_valid",
        )
        share = {name: getattr(rollout, name)[:, envs] for name in steps}
        obs = {name: x[:, envs] for name, x in rollout.obs.items()}
        expected.append(apart.update(replace(rollout, obs=obs, state=rollout.state[envs], **share), bonus[:, envs]))
    for one, other in zip(together.policy.parameters(), apart.policy.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    for name, mean in stats.items():
        assert mean == pytest.approx((expected[0][name] + expected[1][name]) / 2)


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
        impala = IMPALA(policy, IMPALAConfig(minibatches=1), coefficient=0.1)
        impala.update(make_rollout(), torch.rand(T, B), progress=progress)
        moved[progress] = (torch.cat([p.detach().flatten() for p in policy.parameters()]) - before).abs().max().item()
    assert moved[0.75] == pytest.approx(0.25 * moved[0.0], rel=1e-3)


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
