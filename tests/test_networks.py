"""The actor-critic against encoding every view by itself and acting step by step."""

import pytest
import torch
from torch import nn

from bebold import gru, products
from bebold.config import NetworkConfig
from bebold.encoding import OneHot, distinct
from bebold.networks import ActorCritic


@pytest.fixture
def float32(monkeypatch):
    for module in (gru, products):
        monkeypatch.setattr(module, "product_dtype", lambda: torch.float32)


def make_policy(heads=1):
    torch.manual_seed(0)
    return ActorCritic((7, 7, 3), 7, NetworkConfig(hidden=16, memory=12, value_heads=heads))


def random_views(*shape, kinds=9, seed=0):
    """Views of which many are alike, as in an episode."""
    generator = torch.Generator().manual_seed(seed)
    views = torch.stack([torch.randint(0, n, (kinds, 7, 7), generator=generator) for n in (11, 6, 4)], dim=-1).to(
        torch.uint8
    )
    return views[torch.randint(0, kinds, shape, generator=generator)]


def test_one_hot_marks_each_code_once():
    view = random_views(4)
    encoded = OneHot()(view).reshape(4, 49, 21)
    cells = view.reshape(4, 49, 3).long()
    for part, (start, width) in enumerate([(0, 11), (11, 6), (17, 4)]):
        block = encoded[..., start : start + width]
        assert torch.equal(block.argmax(dim=-1), cells[..., part])
        assert torch.equal(block.sum(dim=-1), torch.ones(4, 49))


def test_distinct_rows_are_found():
    views = random_views(200)
    first, inverse = distinct(views)
    assert torch.equal(views[first][inverse], views)
    rows = {tuple(view.flatten().tolist()) for view in views}
    assert len(first) == len(rows)


def test_shared_encoding_changes_nothing(float32):
    policy = make_policy()
    image, starts = random_views(5, 4), torch.zeros(5, 4, dtype=torch.bool)
    logits, value, state = policy.unroll({"image": image}, policy.initial_state(4), starts)
    x = policy.torso(image.flatten(0, 1))
    memory = policy.core(policy.core.gates(x), torch.arange(20).view(5, 4), policy.initial_state(4), starts)
    expected = policy.view_head(x).unflatten(0, (5, 4)) + policy.memory_head(memory)
    torch.testing.assert_close(logits, expected[..., :7])
    torch.testing.assert_close(value, expected[..., 7:])
    torch.testing.assert_close(state, memory[-1])


def test_acting_step_by_step_is_unrolling():
    policy = make_policy(heads=2)
    image = random_views(6, 4)
    starts = torch.rand(6, 4, generator=torch.Generator().manual_seed(3)) < 0.3
    with torch.no_grad():
        logits, value, last = policy.unroll({"image": image}, policy.initial_state(4), starts)
    state = policy.initial_state(4)
    for t in range(6):
        step = policy.act({"image": image[t]}, state, starts[t], greedy=True)
        state = step.state
        torch.testing.assert_close(step.logits, logits[t], rtol=2e-2, atol=2e-3)  # bfloat16 products
        torch.testing.assert_close(step.value, value[t], rtol=2e-2, atol=2e-3)
        assert torch.equal(step.action, step.logits.argmax(dim=-1))
    torch.testing.assert_close(state, last, rtol=2e-2, atol=2e-3)
    assert value.shape == (6, 4, 2)


def test_bfloat16_products_stay_close_to_float32(monkeypatch):
    policy = make_policy()
    image, starts = random_views(5, 4), torch.zeros(5, 4, dtype=torch.bool)
    gradients = {}
    for dtype in (torch.bfloat16, torch.float32):
        for module in (gru, products):
            monkeypatch.setattr(module, "product_dtype", lambda dtype=dtype: dtype)
        policy.zero_grad()
        logits, value, _ = policy.unroll({"image": image}, policy.initial_state(4), starts)
        (logits.square().sum() + value.square().sum()).backward()
        gradients[dtype] = torch.cat([p.grad.flatten() for p in policy.parameters()])
    similarity = nn.functional.cosine_similarity(*gradients.values(), dim=0)
    assert similarity > 0.999


def test_sampling_follows_the_policy():
    policy = make_policy()
    with torch.no_grad():
        policy.memory_head.bias[:7] = torch.tensor([0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    image = random_views(1).expand(4000, 7, 7, 3)
    generator = torch.Generator().manual_seed(0)
    starts = torch.zeros(4000, dtype=torch.bool)
    step = policy.act({"image": image}, policy.initial_state(4000), starts, generator=generator)
    share = torch.bincount(step.action, minlength=7) / 4000
    expected = step.logits[0].softmax(dim=-1)
    assert torch.all((share - expected).abs() < 4 * (expected / 4000).sqrt())
    torch.testing.assert_close(step.log_prob, expected.log()[step.action])
