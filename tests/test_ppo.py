"""PPO's loss against a literal reading, step by step in plain Python."""

import math
from dataclasses import replace

import pytest
import torch
from experience import A, B, T, make_policy, make_rollout

from bebold import gru, products
from bebold.config import PPOConfig
from bebold.errors import RunError
from bebold.learners.ppo import PPO, clipped_surrogate
from bebold.optimise import Peers


def test_clipped_surrogate_by_hand():
    ratio = torch.tensor([0.5, 0.5, 1.0, 1.5, 1.5])
    advantage = torch.tensor([1.0, -1.0, 2.0, 1.0, -1.0])
    result = clipped_surrogate(ratio.log(), torch.zeros(5), advantage, 0.2)
    torch.testing.assert_close(result, torch.tensor([0.5, -0.8, 2.0, 1.2, -1.5]))


def test_a_blank_behind_a_time_out_is_worth_nothing():
    """As if the task had ended there; a blank elsewhere changes nothing."""
    rollout, bonus = make_rollout(), torch.zeros(T, B)
    timed_out = rollout.truncated & ~rollout.terminated
    assert timed_out.any()
    blank = torch.ones(T + 1, B, dtype=torch.bool)
    blank[1:] = ~timed_out
    blank[0] = False
    ppo = PPO(make_policy(), PPOConfig(), coefficient=0.0)
    found, _ = ppo.advantages(replace(rollout, successor_valid=blank), bonus)
    ended, _ = ppo.advantages(replace(rollout, terminated=rollout.terminated | timed_out), bonus)
    torch.testing.assert_close(found, ended)
    assert not torch.allclose(found, ppo.advantages(rollout, bonus)[0])


@pytest.mark.parametrize("huber", [0.0, 0.3])
def test_loss_is_the_literal_one(monkeypatch, huber):
    for module in (gru, products):
        monkeypatch.setattr(module, "product_dtype", lambda: torch.float32)
    policy, rollout, bonus = make_policy(), make_rollout(), torch.rand(T, B)
    config = PPOConfig(entropy=0.01, value_loss=0.7, extrinsic_scale=3.0, huber_delta=huber)
    ppo = PPO(policy, config, coefficient=0.5)
    advantage, target = ppo.advantages(rollout, bonus)
    loss, _ = ppo.loss(rollout, advantage, target, torch.arange(B))

    total, count, beyond = 0.0, 0, [0, 0]
    for b in range(B):
        # The advantage of each step, backwards, with plain numbers.
        following, advantages = 0.0, [0.0] * T
        for t in reversed(range(T)):
            reward = 3.0 * float(rollout.reward[t, b]) + 0.5 * float(bonus[t, b])
            cut = bool(rollout.terminated[t, b])
            end = cut or bool(rollout.truncated[t, b])
            next_value = 0.0 if cut else float(rollout.value[t + 1, b, 0])
            delta = reward + 0.99 * next_value - float(rollout.value[t, b, 0])
            following = delta + (0.0 if end else 0.99 * 0.95 * following)
            advantages[t] = following
        state = rollout.state[b : b + 1]
        for t in range(T):
            with torch.no_grad():
                logits, value, state = policy.unroll(
                    {"image": rollout.obs["image"][t : t + 1, b : b + 1]},
                    state,
                    rollout.starts[t : t + 1, b : b + 1],
                )
            if rollout.starts[t + 1, b]:
                continue  # this step only reset
            probs = logits[0, 0].softmax(-1).tolist()
            ratio = probs[int(rollout.action[t, b])] / math.exp(float(rollout.log_prob[t, b]))
            surrogate = min(ratio * advantages[t], min(max(ratio, 0.8), 1.2) * advantages[t])
            goal = advantages[t] + float(rollout.value[t, b, 0])
            entropy = -sum(p * math.log(p) for p in probs)
            error = abs(float(value[0, 0, 0]) - goal)
            beyond[error > 0.3] += 1
            error = huber * (error - huber / 2) if huber and error > huber else error**2 / 2
            total += -surrogate + 0.7 * error - 0.01 * entropy
            count += 1
    assert count == T * B - 2
    assert min(beyond) > 0
    assert loss.item() == pytest.approx(total / count, rel=1e-4)


def test_steps_that_only_reset_teach_nothing():
    rollout, bonus = make_rollout(), torch.rand(T, B)
    parameters = []
    for changed in (False, True):
        policy = make_policy()
        ppo = PPO(policy, PPOConfig(), coefficient=0.1, seed=3)
        if changed:
            reset = ~rollout.valid
            action = torch.where(reset, (rollout.action + 1) % A, rollout.action)
            rollout = replace(rollout, action=action, reward=torch.where(reset, 9.0, rollout.reward))
            bonus = torch.where(reset, 5.0, bonus)
        ppo.update(rollout, bonus)
        parameters.append(torch.cat([p.detach().flatten() for p in policy.parameters()]))
    assert torch.equal(*parameters)


def test_advantages_are_centred_over_the_valid_steps_of_all_workers():
    rollout = make_rollout()
    advantage = torch.randn(T, B) + 5
    whole = PPO(make_policy(), PPOConfig(), coefficient=0.1).centred(advantage, rollout.valid)
    assert whole[rollout.valid].mean().item() == pytest.approx(0, abs=1e-5)
    torch.testing.assert_close(whole - whole[0, 0], advantage - advantage[0, 0])
    halves = [(advantage[:, :1], rollout.valid[:, :1]), (advantage[:, 1:], rollout.valid[:, 1:])]
    sums = [torch.stack((x[valid].sum(), valid.sum())) for x, valid in halves]

    class Two(Peers):
        def average_(self, tensor):
            torch.testing.assert_close(tensor, sums[0])
            tensor.copy_((sums[0] + sums[1]) / 2)

    one = PPO(make_policy(), PPOConfig(), coefficient=0.1, peers=Two()).centred(*halves[0])
    torch.testing.assert_close(one, whole[:, :1])


def test_an_error_that_all_values_share_teaches_the_policy_nothing(monkeypatch):
    bonus, gradients = torch.rand(T, B), []
    plain = PPO.advantages
    for error in (0.0, 3.0):
        monkeypatch.setattr(PPO, "advantages", lambda *given, e=error: (plain(*given)[0] - e, plain(*given)[1]))
        policy = make_policy()
        PPO(policy, PPOConfig(epochs=1, minibatches=1, max_grad_norm=1e9), coefficient=0.1).update(
            make_rollout(), bonus
        )
        gradients.append(policy.memory_head.weight.grad[:A].clone())
    torch.testing.assert_close(*gradients)
    assert gradients[0].abs().max() > 1e-4


def test_the_learning_rate_falls_to_zero():
    bonus, moved = torch.rand(T, B), {}
    for decay, progress in (("linear", 0.0), ("linear", 0.75), ("none", 0.75)):
        policy = make_policy()
        before = torch.cat([p.detach().flatten() for p in policy.parameters()])
        config = PPOConfig(learning_rate_decay=decay, entropy_decay="none", epochs=1, minibatches=1)
        ppo = PPO(policy, config, coefficient=0.1)
        ppo.update(make_rollout(), bonus, progress=progress)
        after = torch.cat([p.detach().flatten() for p in policy.parameters()])
        moved[decay, progress] = (after - before).abs().max().item()
    assert moved["linear", 0.75] == pytest.approx(0.25 * moved["linear", 0.0], rel=1e-3)
    assert moved["none", 0.75] == moved["linear", 0.0]


def test_the_entropy_bonus_falls_to_zero():
    """The loss is linear in the coefficient: without it, and with what is left of it."""
    rollout, bonus, losses = make_rollout(), torch.rand(T, B), {}
    for decay, progress in (("linear", 0.0), ("linear", 0.75), ("linear", 1.0), ("none", 0.75)):
        ppo = PPO(make_policy(), PPOConfig(entropy=0.5, entropy_decay=decay, learning_rate=1e-12), coefficient=0.1)
        ppo.update(rollout, bonus, progress=progress)
        losses[decay, progress] = ppo.loss(rollout, *ppo.advantages(rollout, bonus), torch.arange(B))[0].item()
    whole = losses["linear", 1.0] - losses["linear", 0.0]
    assert whole > 0.5
    assert losses["linear", 1.0] - losses["linear", 0.75] == pytest.approx(0.25 * whole, rel=1e-3)
    assert losses["none", 0.75] == pytest.approx(losses["linear", 0.0], rel=1e-6)


def test_two_value_heads_add_up_to_one():
    """With λ = 1 and values of zero, the summed advantage does not depend on how the reward is split."""
    bonus = torch.rand(T, B)
    config = PPOConfig(gae_lambda=1.0)
    advantages = []
    for heads in (1, 2):
        rollout = make_rollout(heads)
        rollout = replace(rollout, value=torch.zeros(T + 1, B, heads))
        ppo = PPO(make_policy(heads), config, coefficient=0.3)
        advantage, target = ppo.advantages(rollout, bonus)
        assert target.shape == (T, B, heads)
        advantages.append(advantage)
    torch.testing.assert_close(*advantages)


def test_update_makes_rewarded_actions_likelier():
    policy = make_policy()
    ppo = PPO(policy, PPOConfig(learning_rate=1e-2), coefficient=0.0)
    base = make_rollout()
    for turn in range(12):
        action = torch.randint(0, A, (T, B), generator=torch.Generator().manual_seed(turn))
        with torch.no_grad():
            logits, value, _ = policy.unroll({"image": base.obs["image"]}, base.state, torch.zeros(T + 1, B).bool())
        rollout = replace(
            base,
            action=action,
            reward=(action == 3).float(),
            terminated=torch.ones(T, B, dtype=torch.bool),
            truncated=torch.zeros(T, B, dtype=torch.bool),
            starts=torch.zeros(T + 1, B, dtype=torch.bool),
            log_prob=logits[:-1].log_softmax(-1).gather(-1, action[..., None])[..., 0],
            value=value,
        )
        stats = ppo.update(rollout, torch.zeros(T, B))
    assert logits.softmax(-1)[..., 3].mean() > 0.9
    assert stats["losses/entropy"] < math.log(A) / 2


def test_a_loss_that_is_not_finite_is_refused_and_changes_nothing():
    policy, rollout = make_policy(), make_rollout()
    before = [p.detach().clone() for p in policy.parameters()]
    ppo = PPO(policy, PPOConfig(), coefficient=1.0)
    with pytest.raises(RunError, match="lower the learning rate"):
        ppo.update(rollout, torch.full((T, B), float("nan")))
    assert all(torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))


def test_state_goes_on_where_it_was(tmp_path):
    rollout, bonus = make_rollout(), torch.rand(T, B)
    one, other = (PPO(make_policy(), PPOConfig(), coefficient=0.1) for _ in range(2))
    one.update(rollout, bonus)
    torch.save(one.state_dict(), tmp_path / "state")
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    first, second = one.update(rollout, bonus), other.update(rollout, bonus)
    assert first == second
