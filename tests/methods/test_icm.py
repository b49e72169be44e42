"""ICM and RIDE against plain products of their weights, computed transition by transition."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from bebold.config import ICMConfig, IntrinsicConfig
from bebold.encoding import OneHot
from bebold.errors import UsageError
from bebold.gridworld.vector import MiniGridVectorEnv
from bebold.methods.build import build_intrinsic
from bebold.methods.icm import ICMNovelty
from bebold.optimise import Peers

SHAPE, A = (7, 7, 3), 7


def make(measures="error", **settings):
    small = {"hidden": 32, "outputs": 16, "model_hidden": 24}
    return ICMNovelty(SHAPE, A, ICMConfig(**(small | settings)), measures=measures, seed=1)


@pytest.fixture
def experience(view_rollout):
    """Random views, actions, starts and counts."""

    def build(seed=0, **sizes):
        rollout = view_rollout(seed, **sizes)
        rollout.action[:] = torch.randint(A, rollout.action.shape, generator=torch.Generator().manual_seed(seed))
        return rollout

    return build


def random_play(rollout_of, rollouts, steps=40, num_envs=32):
    """Rollouts of random actions in MRN6."""
    envs, chance = MiniGridVectorEnv("MRN6", num_envs), np.random.default_rng(0)
    obs, _ = envs.reset(seed=0)
    starts, ended = np.ones(num_envs, bool), np.zeros(num_envs, bool)
    for _ in range(rollouts):
        images, beginnings, actions = [obs["image"].copy()], [starts], []
        for _ in range(steps):
            actions.append(chance.integers(A, size=num_envs))
            obs, _, terminated, truncated, _ = envs.step(actions[-1])
            starts, ended = ended, terminated | truncated
            images.append(obs["image"].copy())
            beginnings.append(starts)
        image, begins, action = (torch.from_numpy(np.stack(x)) for x in (images, beginnings, actions))
        yield dataclasses.replace(rollout_of(starts=begins, image=image), action=action)


@pytest.mark.parametrize(("weights", "alive"), [({}, True), ({"forward_loss": 10.0, "inverse_loss": 0.1}, False)])
def test_the_embedding_outlives_its_first_updates_as_it_does_not_with_ride_s_weights(rollout_of, weights, alive):
    """If φ shrinks to a point the forward model is right for nothing, and neither ICM nor RIDE pays anything."""
    play = list(random_play(rollout_of, 5))
    icm = ICMNovelty(SHAPE, A, ICMConfig(**weights), measures="impact")
    for _ in range(8):
        stats = [icm.update(rollout) for rollout in play][-1]
    impact = icm.measure(play[0])[play[0].valid].mean()
    assert (impact > 0.5) == alive
    assert (stats["intrinsic/inverse_loss"] < 1.5) == alive  # ln 7 = 1.95 is chance
    if not alive:
        assert impact < 1e-3


def plainly(icm, rollout, t, b):
    """φ(o_t), φ(o_{t+1}) and f(φ(o_t), a_t) of one transition."""
    one_hot = OneHot()
    first, second = (layer for layer in icm.embed if hasattr(layer, "weight"))

    def phi(view):
        hidden = (one_hot(view[None])[0] @ first.weight + first.bias).relu()
        return second.weight @ hidden + second.bias

    before, after = phi(rollout.obs["image"][t, b]), phi(rollout.obs["image"][t + 1, b])
    action = torch.zeros(A)
    action[rollout.action[t, b]] = 1
    hidden, last = icm.forward_model[0], icm.forward_model[2]
    foreseen = last.weight @ (hidden.weight @ torch.cat((before, action)) + hidden.bias).relu() + last.bias
    return before, after, foreseen


def plain_inverse(icm, before, after):
    """Logits of the action between two embeddings."""
    hidden, last = icm.inverse_model[0], icm.inverse_model[2]
    return last.weight @ (hidden.weight @ torch.cat((before, after)) + hidden.bias).relu() + last.bias


@pytest.mark.parametrize("measures", ["error", "impact"])
def test_measure_is_the_equation(experience, measures):
    icm, rollout = make(measures), experience()
    with torch.no_grad():
        measured = icm.measure(rollout)
        assert measured.shape == (8, 6)
        for t in range(8):
            for b in range(6):
                before, after, foreseen = plainly(icm, rollout, t, b)
                difference = (after - before) if measures == "impact" else (foreseen - after)
                assert measured[t, b].item() == pytest.approx(difference.square().sum().sqrt().item(), rel=1e-4)


@pytest.mark.parametrize("kinds", [2, 12])
def test_one_update_descends_the_plain_losses_over_valid_transitions(experience, monkeypatch, kinds):
    """However often each of them occurs."""
    icm, rollout = make(minibatches=1, forward_loss=3.0, inverse_loss=0.5), experience(kinds=kinds)
    shown = torch.rand(9, 6, generator=torch.Generator().manual_seed(kinds)) < 0.8  # the others are blank
    rollout = dataclasses.replace(rollout, successor_valid=shown)
    foresight, inversion, count = 0.0, 0.0, 0
    for t, b in (rollout.valid & shown[1:]).nonzero().tolist():  # the others only reset
        before, after, foreseen = plainly(icm, rollout, t, b)
        foresight = foresight + (foreseen - after).square().sum().sqrt()
        inversion = inversion - plain_inverse(icm, before, after).log_softmax(0)[rollout.action[t, b]]
        count += 1
    assert 0 < count < int(rollout.valid.sum()) < 48
    loss = (3.0 * foresight + 0.5 * inversion) / count
    gradients = torch.autograd.grad(loss, list(icm.parameters()))
    monkeypatch.setattr(icm.optimiser.descent, "step", lambda: None)
    stats = icm.update(rollout)
    assert stats["intrinsic/forward_loss"] == pytest.approx(foresight.item() / count, rel=1e-4)
    assert stats["intrinsic/inverse_loss"] == pytest.approx(inversion.item() / count, rel=1e-4)
    for parameter, gradient in zip(icm.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("minibatches", [3, 60])
def test_minibatches_are_of_transitions_as_they_occur(experience, monkeypatch, minibatches):
    """Each minibatch's weights are as many as its transitions, and all together those of the rollout, in every pass;
    more minibatches than transitions leave some empty."""
    icm, rollout = make(minibatches=minibatches, epochs=2), experience(kinds=2)
    drawn = []
    losses = icm.losses
    monkeypatch.setattr(icm, "losses", lambda *parts: drawn.append(parts) or losses(*parts))
    icm.update(rollout)
    taught = rollout.valid.nonzero().tolist()
    image = rollout.obs["image"]
    expected = Counter(
        (image[t, b].numpy().tobytes(), int(rollout.action[t, b]), image[t + 1, b].numpy().tobytes()) for t, b in taught
    )
    assert len(expected) < 0.6 * len(taught)
    sizes = [len(part) for part in torch.arange(len(taught)).tensor_split(minibatches)]
    assert [int(weights.sum()) for _, _, weights in drawn] == 2 * sizes
    passes = (drawn[:minibatches], drawn[minibatches:])
    for epoch in passes:
        found = Counter()
        for views, transitions, weights in epoch:
            for (before, action, after), weight in zip(transitions.tolist(), weights.tolist(), strict=True):
                found[views[before].numpy().tobytes(), action, views[after].numpy().tobytes()] += weight
        assert found == expected
    first, second = ([(rows.tolist(), weights.tolist()) for _, rows, weights in epoch] for epoch in passes)
    assert first != second


def test_ride_divides_the_impact_by_the_root_of_the_episodic_count(experience):
    rollout = experience(1)
    config = IntrinsicConfig()
    ride = build_intrinsic("ride", config, obs_shapes={"image": SHAPE}, num_actions=A)
    impact = ride.novelty.measure(rollout)
    expected = impact / rollout.episodic_count[1:].float().sqrt() * rollout.valid
    torch.testing.assert_close(ride.reward(rollout), expected)
    assert (ride.reward(rollout)[~rollout.valid] == 0).all()
    assert not rollout.valid.all()


def test_it_learns_what_actions_do(rollout_of, views_of):
    """Two views; action 0 stays, action 1 changes over: both models come to know it, and the error falls."""
    views = views_of(3, kinds=2, steps=40).flatten(0, 1)
    kinds = torch.stack([views[0], next(view for view in views if not torch.equal(view, views[0]))])
    action = torch.randint(2, (40, 6), generator=torch.Generator().manual_seed(0))
    place = torch.cat((torch.zeros(1, 6, dtype=torch.int64), action.cumsum(dim=0) % 2))
    rollout = rollout_of(image=kinds[place])
    rollout.action[:] = action
    icm = make(learning_rate=3e-3, forward_loss=0.2, inverse_loss=1.0)
    before = icm.measure(rollout).mean()
    for _ in range(60):
        stats = icm.update(rollout)
    assert stats["intrinsic/inverse_loss"] < 0.1
    assert icm.measure(rollout).mean() < 0.2 * before


def test_the_published_networks(experience):
    """RIDE: convolutions to 128, a forward model of 128 + A to 256 to 128, an inverse one of 256 to 256 to A."""
    icm = make(architecture="ride", encoding="bytes", outputs=128, model_hidden=256)
    assert [tuple(layer.weight.shape) for layer in icm.embed if isinstance(layer, nn.Conv2d)] == [
        (32, 3, 3, 3),
        (32, 32, 3, 3),
        (128, 32, 3, 3),
    ]
    assert [tuple(icm.forward_model[i].weight.shape) for i in (0, 2)] == [(256, 128 + A), (128, 256)]
    assert [tuple(icm.inverse_model[i].weight.shape) for i in (0, 2)] == [(256, 256), (A, 256)]
    image = experience().obs["image"].flatten(0, 1)
    codes = image.movedim(-1, 1).float() / 255
    with torch.no_grad():
        x = codes
        for layer in icm.embed:
            if isinstance(layer, nn.Conv2d):
                x = nn.functional.elu(nn.functional.conv2d(x, layer.weight, layer.bias, stride=2, padding=1))
        torch.testing.assert_close(icm.embed(image), x.flatten(1))


def test_two_workers_with_unequal_steps_descend_the_mean_over_all(experience):
    """The gradients of both halves, averaged, are those of the whole."""
    whole = experience(5)

    def part(envs):
        names = ("action", "reward", "terminated", "truncated", "starts", "episodic_count", "log_prob")
        cut = {name: getattr(whole, name)[:, envs] for name in names}
        return dataclasses.replace(whole, obs={"image": whole.obs["image"][:, envs]}, **cut)

    halves = [part(slice(0, 2)), part(slice(2, 6))]
    counts = [float(half.valid.sum()) for half in halves]
    assert counts[0] != counts[1]

    class Two(Peers):
        size = 2

        def average_(self, tensor):
            if tensor.numel() == 1:  # the numbers of valid steps
                assert tensor.item() in counts
                tensor.fill_(sum(counts) / 2)

    def gradient(rollout, peers):
        config = ICMConfig(hidden=32, outputs=16, model_hidden=24, minibatches=1)
        icm = ICMNovelty(SHAPE, A, config, seed=1, peers=peers)
        icm.optimiser.descent.step = lambda: None
        icm.update(rollout)
        return icm.optimiser.gradient.clone()

    mean = (gradient(halves[0], Two()) + gradient(halves[1], Two())) / 2
    torch.testing.assert_close(mean, gradient(whole, Peers()), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("method", ["icm", "ride"])
def test_state_goes_on_where_it_was(experience, method, tmp_path):
    def build(seed):
        return build_intrinsic(method, obs_shapes={"image": SHAPE}, num_actions=A, seed=seed)

    one, other = build(1), build(2)
    one.update(experience(0))
    torch.save(one.state_dict(), tmp_path / "state")
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for seed in (1, 2):
        assert one.update(experience(seed)) == other.update(experience(seed))
    assert torch.equal(one.reward(experience(3)), other.reward(experience(3)))


def test_the_number_of_actions_is_needed():
    with pytest.raises(UsageError, match="ICM and RIDE learn what actions do: say how many there are with num_actions"):
        build_intrinsic("icm", obs_shapes={"image": SHAPE})


def test_a_rollout_of_resets_teaches_nothing(rollout_of, views_of):
    icm = make()
    before = [p.detach().clone() for p in icm.parameters()]
    rollout = rollout_of(image=views_of(0), starts=torch.ones(9, 6, dtype=torch.bool))
    assert icm.update(rollout) == {"intrinsic/forward_loss": 0.0, "intrinsic/inverse_loss": 0.0}
    assert all(torch.equal(a, b) for a, b in zip(before, icm.parameters(), strict=True))
