"""The fused recurrence against PyTorch's own LSTM, restarted where episodes start."""

import pytest
import torch
from torch import nn

from bebold import lstm as module
from bebold import products
from bebold.lstm import MaskedLSTM

STARTS = torch.tensor([[0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]).bool()


def use(monkeypatch, dtype):
    for part in (module, products):
        monkeypatch.setattr(part, "product_dtype", lambda: dtype)


def make(scale=1.0):
    torch.manual_seed(1)
    core = MaskedLSTM(5, 16, layers=2)
    x = (scale * torch.randn(6, 3, 5)).requires_grad_()
    state = torch.randn(3, core.size, requires_grad=True)
    return core, x, state


def by_pytorch(core, x, state):
    """One environment and one step at a time."""
    outputs, last = [], []
    for b in range(x.shape[1]):
        h, c = state[b].view(2, 2, -1)
        steps = []
        for t in range(len(x)):
            if STARTS[t, b]:
                h, c = torch.zeros_like(h), torch.zeros_like(c)
            y, (h, c) = core.lstm(x[t, b][None], (h, c))
            steps.append(y[0])
        outputs.append(torch.stack(steps))
        last.append(torch.cat((h.flatten(), c.flatten())))
    return torch.stack(outputs, dim=1), torch.stack(last)


def gradients(results, core, x, state):
    generator = torch.Generator().manual_seed(2)
    loss = sum((result * torch.randn(result.shape, generator=generator)).sum() for result in results)
    return torch.autograd.grad(loss, [x, state, *core.parameters()])


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_it_is_pytorchs_lstm_restarted(monkeypatch, scale):
    use(monkeypatch, torch.float32)
    core, x, state = make(scale)
    mine, theirs = core(x, state, STARTS), by_pytorch(core, x, state)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    for one, other in zip(gradients(mine, core, x, state), gradients(theirs, core, x, state), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_plain_recurrence_is_the_fused_one(monkeypatch):
    use(monkeypatch, torch.float32)
    core, x, state = make()
    fused = core(x, state, STARTS)
    monkeypatch.setattr(MaskedLSTM, "_fused", lambda self: False)
    plain = core(x, state, STARTS)
    for one, other in zip(
        (*fused, *gradients(fused, core, x, state)), (*plain, *gradients(plain, core, x, state)), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_bfloat16_products_change_little(monkeypatch):
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        use(monkeypatch, dtype)
        core, x, state = make()
        out = core(x, state, STARTS)
        results.append([r.detach() for r in (*out, *gradients(out, core, x, state))])
    for exact, rounded in zip(*results, strict=True):
        assert 0 < float((exact - rounded).norm()) < 0.02 * float(exact.norm())


def test_acting_rounds_the_weights_once(monkeypatch):
    use(monkeypatch, torch.bfloat16)
    core, x, state = make()
    with torch.no_grad():
        expected, last = core(x, state, STARTS)
        with core.unchanged():
            nn.init.zeros_(core.lstm.weight_hh_l1)
            kept, kept_last = core(x, state, STARTS)
        assert torch.equal(kept, expected)
        assert torch.equal(kept_last, last)
        assert not torch.equal(core(x, state, STARTS)[0], expected)


def test_gradients_pass_while_the_weights_are_kept():
    core, x, state = make()
    expected = gradients(core(x, state, STARTS), core, x, state)
    with core.unchanged():
        kept = gradients(core(x, state, STARTS), core, x, state)
    assert all(torch.equal(one, other) for one, other in zip(kept, expected, strict=True))


def test_what_is_not_finite_is_not_hidden(monkeypatch):
    for dtype in (torch.float32, torch.bfloat16):
        use(monkeypatch, dtype)
        core, x, state = make()
        with torch.no_grad():
            state[1, 3] = torch.nan
        out, last = core(x, state, torch.zeros_like(STARTS))
        assert out[:, 1].isnan().all()
        assert last[1].isnan().any()
        assert not out[:, [0, 2]].isnan().any()
        assert all(grad.isnan().any() for grad in gradients((out, last), core, x, state)[2:])
