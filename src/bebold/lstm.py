"""A long short-term memory over time whose state is cleared where an episode starts, without splitting sequences.

With x the input's part of the gates, made for all steps in one product (Hochreiter and Schmidhuber 1997; Gers et al.):

    i, f, g, o = σ, σ, tanh, σ of x + U h,  c' = f·c + i·g,  h' = o·tanh(c')

On a CPU each step is one matrix product and one fused pass over the rest, differentiated by hand, and the gradient of U
is one product at the end; elsewhere it is PyTorch's own cell. Weights are those of `nn.LSTM`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bebold.jit import jit
from bebold.pointwise import FAST, get, memory_of, put, sigmoid, tanh
from bebold.products import product, product_dtype


class MaskedLSTM(nn.Module):
    """An LSTM of some layers. The state of all is one vector `[B, S]`: hidden ones first, then cells."""

    def __init__(self, inputs: int, memory: int, layers: int):
        super().__init__()
        self.lstm = nn.LSTM(inputs, memory, layers)
        self.size = 2 * layers * memory
        self._rounded: list[tuple[Tensor, Tensor, Tensor]] | None = None

    def forward(self, x: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs `[T, B, memory]` of inputs `[T, B, I]`, and the last state; `starts` bool `[T, B]`."""
        keep = (~starts).to(state.dtype)
        hidden, cell = state.unflatten(1, (2, -1, self.lstm.hidden_size)).unbind(1)
        after = []
        if not self._fused():
            for layer, weights in enumerate(self.lstm.all_weights):
                x, last = unroll_plainly(x, hidden[:, layer], cell[:, layer], keep, *weights)
                after += [x[-1], last]
        else:
            kept = None if torch.is_grad_enabled() else self._rounded
            for layer, (w, u, bias) in enumerate(kept or self._weights()):
                x, last = _Fused.apply(product(x, w, bias), hidden[:, layer], cell[:, layer], keep, u)
                after += [x[-1], last]
        return x, torch.cat((*after[::2], *after[1::2]), dim=1)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """What acts meanwhile, without gradients, rounds the weights once."""
        if self._fused():
            with torch.no_grad():
                self._rounded = [(w.to(product_dtype()), u.to(product_dtype()), b) for w, u, b in self._weights()]
        try:
            yield
        finally:
            self._rounded = None

    def _fused(self) -> bool:
        weight = self.lstm.weight_hh_l0
        return weight.device.type == "cpu" and weight.dtype == torch.float32

    def _weights(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for w, u, bias, other_bias in self.lstm.all_weights:
            yield w, u, bias + other_bias


def unroll_plainly(x: Tensor, hidden: Tensor, cell: Tensor, keep: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    """One layer step by step, differentiated by PyTorch: outputs `[T, B, S]` of `[T, B, I]`, last cells `[B, S]`.

    `keep [T, B]` is 0 at starts, else 1; the weights are those of `nn.LSTMCell`.
    """
    outputs = []
    for x_t, keep_t in zip(x, keep.unsqueeze(-1), strict=True):
        hidden, cell = torch.lstm_cell(x_t, (keep_t * hidden, keep_t * cell), *weights)
        outputs.append(hidden)
    return torch.stack(outputs), cell


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, hidden: Tensor, cell: Tensor, keep: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        steps, batch, size = *x.shape[:2], hidden.shape[1]
        dtype = product_dtype()
        weight = weight.to(dtype)
        # Kept for the gradient: i, f, g and o, cells before and after each step, and what U multiplied.
        gates = x.new_empty(x.shape)
        cells = x.new_empty(steps + 1, batch, size)
        masked = x.new_empty(steps, batch, size, dtype=dtype)
        outputs = x.new_empty(steps, batch, size)
        multiplied = x.new_empty(batch, 4 * size, dtype=dtype)
        cells[0] = cell
        torch.mul(hidden, keep[0].unsqueeze(-1), out=masked[0])
        arrays = [memory_of(a) for a in (x.contiguous(), keep, multiplied, gates, cells, masked, outputs)]
        matrix = weight.t()
        for t, masked_t in enumerate(masked):
            torch.mm(masked_t, matrix, out=multiplied)
            _step(t, *arrays)
        ctx.save_for_backward(keep, weight, gates, cells, masked)
        return outputs, cells[steps].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        keep, weight, gates, cells, masked = ctx.saved_tensors
        grad_outputs, grad_cell = gradients[0].contiguous(), gradients[1].clone()
        grad_x = torch.empty_like(gates)
        grad_gates = grad_x if weight.dtype == grad_x.dtype else weight.new_empty(gates.shape)
        past_u = weight.new_zeros(grad_cell.shape)
        matrix = weight.t().contiguous().t()  # oneDNN multiplies it a fifth sooner
        arrays = [memory_of(a) for a in (grad_outputs, keep, gates, cells, past_u, grad_cell, grad_x, grad_gates)]
        for t in reversed(range(len(gates))):
            _step_back(t, *arrays)
            torch.mm(grad_gates[t], matrix, out=past_u)
        grad_hidden = past_u.float() * keep[0].unsqueeze(-1)
        grad_weight = (grad_gates.flatten(0, 1).t() @ masked.flatten(0, 1)).float()
        return grad_x, grad_hidden, grad_cell, None, grad_weight


@jit(fastmath=FAST, nogil=True)
def _step(t, x, keep, multiplied, gates, cells, masked, outputs):
    size = outputs.shape[2]
    for b in range(outputs.shape[1]):
        x_b, multiplied_b, gates_b, output, keep_b = x[t, b], multiplied[b], gates[t, b], outputs[t, b], keep[t, b]
        before, after = cells[t, b], cells[t + 1, b]
        # Short loops over few arrays: only those become vector instructions.
        for i in range(2 * size):
            gates_b[i] = sigmoid(x_b[i] + get(multiplied_b, i))
        for i in range(2 * size, 3 * size):
            gates_b[i] = tanh(x_b[i] + get(multiplied_b, i))
        for i in range(3 * size, 4 * size):
            gates_b[i] = sigmoid(x_b[i] + get(multiplied_b, i))
        for i in range(size):
            after[i] = gates_b[size + i] * (keep_b * before[i]) + gates_b[i] * gates_b[2 * size + i]
        for i in range(size):
            output[i] = gates_b[3 * size + i] * tanh(after[i])
        if t + 1 < outputs.shape[0]:
            keep_after, masked_b = keep[t + 1, b], masked[t + 1, b]
            for i in range(size):
                put(masked_b, i, output[i] * keep_after)


@jit(fastmath=FAST, nogil=True)
def _step_back(t, grad_outputs, keep, gates, cells, past_u, grad_cell, grad_x, grad_gates):
    """`grad_cell` is the gradient of the cells after step t, and becomes that of those before it."""
    size = grad_outputs.shape[2]
    one = np.float32(1.0)
    last = t + 1 == grad_outputs.shape[0]
    grad_h, tanh_c = np.empty(size, np.float32), np.empty(size, np.float32)
    for b in range(grad_outputs.shape[1]):
        keep_b = keep[t, b]
        keep_after = np.float32(0.0) if last else keep[t + 1, b]
        gates_b, grads, rounded, grad_c, past_b = gates[t, b], grad_x[t, b], grad_gates[t, b], grad_cell[b], past_u[b]
        before, after = cells[t, b], cells[t + 1, b]
        for i in range(size):
            grad_h[i] = grad_outputs[t, b, i] + get(past_b, i) * keep_after
            tanh_c[i] = tanh(after[i])
        for i in range(size):
            o = gates_b[3 * size + i]
            grads[3 * size + i] = grad_h[i] * tanh_c[i] * o * (one - o)
            grad_c[i] += grad_h[i] * o * (one - tanh_c[i] * tanh_c[i])
        for i in range(size):
            g = gates_b[2 * size + i]
            grads[2 * size + i] = grad_c[i] * gates_b[i] * (one - g * g)
            grads[i] = grad_c[i] * g * gates_b[i] * (one - gates_b[i])
        for i in range(size):
            f = gates_b[size + i]
            grads[size + i] = grad_c[i] * (keep_b * before[i]) * f * (one - f)
            grad_c[i] *= f * keep_b
        for i in range(4 * size):
            put(rounded, i, grads[i])
