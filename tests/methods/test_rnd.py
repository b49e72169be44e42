"""RND: what it measures, what it learns, and that its shortcuts change nothing."""

import dataclasses

import pytest
import torch

from bebold.config import RNDConfig
from bebold.encoding import OneHot, OneHotLinear
from bebold.errors import UsageError
from bebold.methods.rnd import RNDNovelty

SHAPE = (7, 7, 3)
ENCODINGS = ["onehot", "contact", "shapes", "codes", "raw"]


def make(**settings):
    small = {"hidden": 32, "outputs": 16, "encoding": "onehot", "learning_rate": 1e-3}
    return RNDNovelty(SHAPE, RNDConfig(**(small | settings)), seed=1)


def given(rollout_of, views, encoding):
    if encoding != "raw":
        return rollout_of(image=views)
    return rollout_of(vector=views.float().mul(0.3).sub(1))


def plain_error(rnd, obs, encoding):
    """‖φ(o) - φ'(o)‖₂ of every observation `[N, ...]`, with dense products, none of them shared."""
    encode = {
        "onehot": OneHot(),
        "contact": lambda x: OneHot()(x[:, [3, 3], [5, 6]]),
        "shapes": lambda x: OneHot()(x * torch.tensor([1, 0, 1], dtype=torch.uint8)),
        "codes": lambda x: x.flatten(1) / 10,
        "raw": lambda x: x.flatten(1),
    }[encoding]

    def run(network):
        x = encode(obs)
        layers = [layer for layer in network if hasattr(layer, "weight")]
        for i, layer in enumerate(layers):
            weight = layer.weight if isinstance(layer, OneHotLinear) else layer.weight.t()
            x = x @ weight + layer.bias
            x = x if i == len(layers) - 1 else x.relu()
        return x

    target = run(rnd.target)
    if rnd.config.normalise_target:
        target = torch.nn.functional.layer_norm(target, target.shape[1:], eps=0) / target.shape[1] ** 0.5
    return (target - run(rnd.predictor)).square().sum(dim=1).sqrt()


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_measure_is_the_error_of_every_observation(rollout_of, views_of, encoding, normalise):
    rnd = make(encoding=encoding, normalise_target=normalise)
    rnd.update(given(rollout_of, views_of(0), encoding))
    rollout = given(rollout_of, views_of(1), encoding)
    (obs,) = rollout.obs.values()
    expected = plain_error(rnd, obs.flatten(0, 1), encoding).view(9, 6)
    torch.testing.assert_close(rnd.measure(rollout), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", ["norm", "square"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_one_update_descends_the_plain_loss_over_all_rows(rollout_of, views_of, encoding, loss, monkeypatch):
    """Duplicates computed once and weighed by their number give the same loss and the same gradient."""
    rnd = make(encoding=encoding, loss=loss, minibatches=1)
    # Off the zero at which the last layer starts, where half the gradient vanishes.
    torch.nn.init.normal_(rnd.predictor[-1].weight, std=0.1, generator=torch.Generator().manual_seed(0))
    rollout = given(rollout_of, views_of(2), encoding)
    rollout = dataclasses.replace(rollout, successor_valid=torch.rand(9, 6) < 0.8)
    (obs,) = rollout.obs.values()
    error = plain_error(rnd, obs[1:][rollout.successor_valid[1:]], encoding)
    plain = (error if loss == "norm" else error.square()).mean()
    parameters = list(rnd.predictor.parameters())
    gradients = torch.autograd.grad(plain, parameters)
    monkeypatch.setattr(rnd.optimiser.descent, "step", lambda: None)
    stats = rnd.update(rollout)
    assert stats["intrinsic/predictor_loss"] == pytest.approx(plain.item(), rel=1e-5)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_minibatches_split_the_rollout(rollout_of, views_of, monkeypatch):
    rnd = make(minibatches=3, epochs=2)
    seen = []
    loss = rnd.loss
    monkeypatch.setattr(rnd, "loss", lambda *parts: (seen.append(parts), loss(*parts))[1])
    views = views_of(3)
    rnd.update(rollout_of(image=views))
    assert [int(weights.sum()) for *_, weights in seen] == [16] * 6
    # Put together, the parts of one pass hold each view as often as the rollout does.
    for epoch in (seen[:3], seen[3:]):
        obs = torch.cat([obs.repeat_interleave(weights, dim=0) for obs, _, weights in epoch]).flatten(1)
        expected = views[1:].flatten(0, 1).flatten(1)
        assert sorted(obs.tolist()) == sorted(expected.tolist())


def test_error_falls_where_it_has_been_and_stays_at_one_elsewhere(rollout_of, views_of):
    rnd = RNDNovelty(SHAPE, RNDConfig(encoding="onehot", learning_rate=1e-3), seed=0)
    known, unknown = rollout_of(image=views_of(0, steps=32)), rollout_of(image=views_of(99))
    torch.testing.assert_close(rnd.measure(known), torch.ones(33, 6))
    for _ in range(100):
        rnd.update(known)
    assert rnd.measure(known).max() < 0.1
    assert rnd.measure(unknown).mean() > 0.7
    rnd.update(unknown)
    assert rnd.measure(known).max() < 0.4


def test_shapes_have_no_colour(rollout_of, views_of):
    rnd = make(encoding="shapes")
    rnd.update(rollout_of(image=views_of(0)))
    other_colours, other_objects = views_of(1).clone(), views_of(1).clone()
    other_colours[..., 1] = (other_colours[..., 1] + 1) % 6
    other_objects[..., 0] = (other_objects[..., 0] + 1) % 11
    before = rnd.measure(rollout_of(image=views_of(1)))
    assert torch.equal(rnd.measure(rollout_of(image=other_colours)), before)
    assert not torch.isclose(rnd.measure(rollout_of(image=other_objects)), before).any()


def test_at_zero_error_the_gradient_is_finite(rollout_of, views_of):
    rnd = make(normalise_target=False)
    for layer in (rnd.target[-1], rnd.predictor[-1]):
        torch.nn.init.zeros_(layer.weight)
    rollout = rollout_of(image=views_of(0))
    assert rnd.update(rollout)["intrinsic/predictor_loss"] == 0
    assert (rnd.measure(rollout) == 0).all()


def test_a_rollout_of_blanks_teaches_nothing(rollout_of, views_of):
    rnd = make()
    before = [p.clone() for p in rnd.predictor.parameters()]
    blank = torch.zeros(9, 6, dtype=torch.bool)
    assert rnd.update(rollout_of(image=views_of(0), successor_valid=blank))["intrinsic/predictor_loss"] == 0
    assert all(torch.equal(a, b) for a, b in zip(before, rnd.predictor.parameters(), strict=True))


def test_same_seed_same_networks_whatever_the_global_state(rollout_of, views_of):
    globally = torch.get_rng_state()
    one = make()
    assert torch.equal(globally, torch.get_rng_state())
    torch.manual_seed(123)
    two, other = make(), RNDNovelty(SHAPE, one.config, seed=2)
    rollout = rollout_of(image=views_of(0))
    assert one.update(rollout) == two.update(rollout) != other.update(rollout)
    assert torch.equal(one.measure(rollout), two.measure(rollout))


def test_the_target_never_learns(rollout_of, views_of):
    rnd = make()
    before = {name: x.clone() for name, x in rnd.target.state_dict().items()}
    rnd.update(rollout_of(image=views_of(0)))
    assert all(torch.equal(before[name], x) for name, x in rnd.target.state_dict().items())
    assert not any(p.requires_grad for p in rnd.target.parameters())


def test_an_unknown_encoding_is_refused():
    with pytest.raises(UsageError, match="choose one of onehot, contact, shapes, codes, integers, bytes, raw"):
        make(encoding="pixels")


def test_convolutional_networks_are_those_of_the_papers(rollout_of, views_of):
    """Number of parameters by hand: 3 x 3 kernels and biases, then dense layers."""

    def conv(inputs, outputs):
        return 9 * inputs * outputs + outputs

    def linear(inputs, outputs):
        return inputs * outputs + outputs

    def size(network):
        return sum(p.numel() for p in network.parameters())

    ride = make(architecture="ride", encoding="bytes", outputs=128)
    assert size(ride.target) == size(ride.predictor) == conv(3, 32) + conv(32, 32) + conv(32, 128)
    bebold = make(architecture="bebold", encoding="integers", normalise_target=False)
    assert size(bebold.encoder) == (
        conv(3, 32) + conv(32, 128) + conv(128, 512) + linear(2048, 1024) + linear(1024, 1024)
    )
    assert size(bebold.target) == linear(1024, 128) + 3 * linear(128, 128)
    assert size(bebold.predictor) == 2 * linear(1024, 1024) + linear(1024, 128) + 2 * linear(128, 128)
    known = rollout_of(image=views_of(0))
    for rnd in (ride, bebold):
        before = rnd.measure(known)
        assert (before > 0).all()
        for _ in range(30):
            rnd.update(known)
        assert (rnd.measure(known)[1:] < 0.7 * before[1:]).float().mean() > 0.9


@pytest.mark.parametrize(("encoding", "factor"), [("integers", 1.0), ("codes", 0.1), ("bytes", 1 / 255)])
def test_the_released_encoder_plainly(views_of, encoding, factor):
    """Strides 1, 2, 2 on the codes times a factor, ELU; then two dense layers with ReLU."""
    rnd = make(architecture="bebold", encoding=encoding, normalise_target=False)
    views = views_of(0).flatten(0, 1)
    with torch.no_grad():
        x = views.movedim(-1, 1).float() * factor
        convolutions = [layer for layer in rnd.encoder if isinstance(layer, torch.nn.Conv2d)]
        for layer, stride in zip(convolutions, (1, 2, 2), strict=True):
            x = torch.nn.functional.conv2d(x, layer.weight, layer.bias, stride=stride, padding=1)
            x = torch.nn.functional.elu(x)
        x = x.flatten(1)
        for layer in (layer for layer in rnd.encoder if isinstance(layer, torch.nn.Linear)):
            x = torch.relu(x @ layer.weight.t() + layer.bias)
        torch.testing.assert_close(rnd.encoder(views), x, rtol=1e-3, atol=1e-4)


def test_behind_convolutions_too_every_error_begins_at_1(rollout_of, views_of):
    rnd = make(architecture="bebold", encoding="integers", normalise_target=True)
    error = rnd.measure(rollout_of(image=views_of(0)))
    torch.testing.assert_close(error, torch.ones_like(error))


def test_convolutions_do_not_read_one_hot_vectors():
    for architecture in ("ride", "bebold"):
        with pytest.raises(UsageError, match="the encoding is 'contact'; choose codes, integers or bytes"):
            make(architecture=architecture, encoding="contact")


def test_rmsprop_descends_the_scaled_loss(rollout_of, views_of):
    """The first step of RMSProp, by hand: lr g / (√(0.01 g²) + 0.01), with the gradient of the loss times its scale."""
    rnd = make(optimiser="rmsprop", loss_scale=5.0, minibatches=1, learning_rate=0.1)
    torch.nn.init.normal_(rnd.predictor[-1].weight, std=0.1, generator=torch.Generator().manual_seed(0))
    rollout = rollout_of(image=views_of(0))
    bias = rnd.predictor[-1].bias
    before = bias.detach().clone()
    plain = plain_error(rnd, rollout.obs["image"][1:].flatten(0, 1), "onehot").mean()
    (gradient,) = torch.autograd.grad(5.0 * plain, [bias])
    rnd.update(rollout)
    torch.testing.assert_close(bias.detach(), before - 0.1 * gradient / (0.1 * gradient.abs() + 0.01))
