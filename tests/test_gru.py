"""The fused recurrence against PyTorch's own GRU cell, restarted where episodes start."""

import pytest
import torch
from torch import nn

from bebold import gru as module
from bebold import products
from bebold.gru import MaskedGRU, unroll_plainly

STARTS = torch.tensor([[0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]).bool()
ROW = torch.tensor([[0, 3, 2], [1, 1, 1], [8, 4, 2], [3, 3, 0], [5, 6, 7], [1, 7, 2]])
"""Which of nine inputs each step reads: some several times, also within a step, some not."""


def use(monkeypatch, dtype):
    for part in (module, products):
        monkeypatch.setattr(part, "product_dtype", lambda: dtype)


def make(scale=1.0):
    torch.manual_seed(1)
    gru = MaskedGRU(8, 16)
    with torch.no_grad():
        gru.bias.copy_(torch.randn(16))
    x = (scale * torch.randn(9, 8)).requires_grad_()
    state = torch.randn(3, 16, requires_grad=True)
    return gru, x, state, torch.randn(6, 3, 16)


def gradients(out, weights, gru, x, state):
    return torch.autograd.grad((out * weights).sum(), [x, state, gru.input.weight, gru.weight, gru.bias])


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_it_is_pytorchs_cell_restarted(monkeypatch, scale):
    use(monkeypatch, torch.float32)
    gru, x, state, weights = make(scale)
    cell = nn.GRUCell(8, 16)
    with torch.no_grad():
        cell.weight_ih.copy_(gru.input.weight)
        cell.bias_ih.copy_(gru.input.bias)
        cell.weight_hh.copy_(gru.weight)
        cell.bias_hh.zero_()
        cell.bias_hh[32:] = gru.bias
    h, states = state, []
    for t in range(6):
        h = cell(x[ROW[t]], torch.where(STARTS[t, :, None], torch.zeros_like(h), h))
        states.append(h)
    expected = torch.stack(states)
    out = gru(gru.gates(x), ROW, state, STARTS)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)

    theirs = torch.autograd.grad((expected * weights).sum(), [x, state, cell.weight_ih, cell.weight_hh, cell.bias_hh])
    for mine, reference in zip(gradients(out, weights, gru, x, state), theirs, strict=True):
        if reference.shape == (48,):
            reference = reference[32:]
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-5)


def test_the_plain_recurrence_is_the_fused_one(monkeypatch):
    use(monkeypatch, torch.float32)
    gru, x, state, weights = make()
    keep = (~STARTS).float()
    fused = gru(gru.gates(x), ROW, state, STARTS)
    plain = unroll_plainly(gru.gates(x), ROW, state, keep, gru.weight, gru.bias)
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-6)
    for mine, reference in zip(
        gradients(fused, weights, gru, x, state), gradients(plain, weights, gru, x, state), strict=True
    ):
        torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-5)


def test_bfloat16_products_change_little(monkeypatch):
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        use(monkeypatch, dtype)
        gru, x, state, weights = make()
        out = gru(gru.gates(x), ROW, state, STARTS)
        results.append(torch.cat([g.flatten() for g in gradients(out, weights, gru, x, state)]))
    assert nn.functional.cosine_similarity(*results, dim=0) > 0.999


def test_a_start_forgets_everything_before():
    gru, x, state, _ = make()
    starts = torch.zeros(6, 3, dtype=torch.bool)
    starts[3] = True
    whole = gru(gru.gates(x), ROW, state, starts)
    fresh = gru(gru.gates(x), ROW[3:], torch.zeros(3, 16), starts[3:])
    torch.testing.assert_close(whole[3:], fresh)


def test_what_is_not_finite_is_not_hidden(monkeypatch):
    for dtype in (torch.float32, torch.bfloat16):
        use(monkeypatch, dtype)
        gru, x, state, weights = make()
        with torch.no_grad():
            state[1, 3] = torch.nan
        out = gru(gru.gates(x), ROW, state, torch.zeros_like(STARTS))
        assert out[:, 1].isnan().all()
        assert not out[:, [0, 2]].isnan().any()
        assert gradients(out, weights, gru, x, state)[3].isnan().any()
