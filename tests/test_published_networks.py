"""The papers' actor-critics against PyTorch's own parts, put together plainly."""

import pytest
import torch
from torch import nn

from bebold.config import NetworkConfig
from bebold.presets import preset
from bebold.published_networks import ConvLSTM


def random_views(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.stack([torch.randint(0, n, (*shape, 7, 7), generator=generator) for n in (11, 6, 4)], -1).byte()


def make_policy(architecture, heads=1):
    torch.manual_seed(0)
    config = NetworkConfig(architecture=architecture, hidden=24, memory=12, value_heads=heads)
    return ConvLSTM((7, 7, 3), 7, config)


def test_released_policy_has_the_papers_number_of_parameters():
    """BeBold's appendix does not say; its released code has 20.6 M, RIDE's appendix an LSTM of 256 on 32 features."""
    policy = ConvLSTM((7, 7, 3), 7, preset("paper").network)
    assert sum(p.numel() for p in policy.parameters()) == 20_577_800
    ride = ConvLSTM((7, 7, 3), 7, preset("paper", method="ride").network)
    convolutions = (9 * 3 * 32 + 32) + 2 * (9 * 32 * 32 + 32)
    assert sum(p.numel() for p in ride.parameters()) == convolutions + 4 * 256 * (32 + 256 + 2) + 257 * 8


def test_policies_see_the_plain_codes():
    for architecture, strides in (("bebold", (1, 2, 2)), ("ride", (2, 2, 2))):
        policy, image = make_policy(architecture), random_views(5)
        with torch.no_grad():
            x = image.permute(0, 3, 1, 2).float()
            layers = [layer for layer in policy.torso if isinstance(layer, nn.Conv2d)]
            for layer, stride in zip(layers, strides, strict=True):
                x = nn.functional.elu(nn.functional.conv2d(x, layer.weight, layer.bias, stride=stride, padding=1))
            x = x.flatten(1)
            for layer in (layer for layer in policy.torso if isinstance(layer, nn.Linear)):
                x = torch.relu(x @ layer.weight.t() + layer.bias)
            torch.testing.assert_close(policy.torso(image), x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("architecture", ["bebold", "ride"])
def test_acting_step_by_step_is_unrolling(architecture):
    policy = make_policy(architecture, heads=2)
    image = random_views(6, 4)
    starts = torch.rand(6, 4, generator=torch.Generator().manual_seed(3)) < 0.3
    with torch.no_grad():
        logits, value, last = policy.unroll({"image": image}, policy.initial_state(4), starts)
    state = policy.initial_state(4)
    for t in range(6):
        step = policy.act({"image": image[t]}, state, starts[t], greedy=True)
        state = step.state
        torch.testing.assert_close(step.logits, logits[t], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(step.value, value[t], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, last, rtol=1e-4, atol=1e-5)
    assert value.shape == (6, 4, 2)


def test_equal_views_share_their_encoding_and_its_gradient():
    policy = make_policy("ride")
    image = random_views(1, 2)[:, [0, 1, 0]].expand(4, 3, 7, 7, 3)
    starts = torch.zeros(4, 3, dtype=torch.bool)
    logits, value, _ = policy.unroll({"image": image}, policy.initial_state(3), starts)
    (logits.square().sum() + value.square().sum()).backward()
    shared = [p.grad.clone() for p in policy.parameters()]
    policy.zero_grad()
    x = policy.torso(image.flatten(0, 1)).unflatten(0, (4, 3))
    output, _ = policy.core(x, policy.initial_state(3), starts)
    policy.head(output).square().sum().backward()
    for one, other in zip(shared, policy.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad, rtol=1e-3, atol=1e-5)
