"""A gated recurrent unit over time whose state is cleared where an episode starts, without splitting sequences.

With x the input's part of the gates, made outside for all steps in one product (Cho et al. 2014):

    r, z = σ(x_rz + U_rz h),  n = tanh(x_n + r·(U_n h + b)),  h' = n + z·(h - n)

Only what depends on the step before stays in the loop. On a CPU each step is one matrix product and one fused
pass over the rest, differentiated by hand, and the gradient of U is one product at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bebold.jit import jit
from bebold.products import dense, product, product_dtype

FAST = {"contract", "reassoc", "arcp", "afn", "nsz"}
"""What the compiler may assume; not that there are no infinities and NaN, which must be found."""


class MaskedGRU(nn.Module):
    """The input's product and the recurrence apart, so that equal inputs are multiplied once."""

    def __init__(self, inputs: int, memory: int):
        super().__init__()
        self.input = dense(inputs, 3 * memory, gain=1.0)
        self.weight = nn.Parameter(torch.empty(3 * memory, memory))
        self.bias = nn.Parameter(torch.zeros(memory))
        nn.init.orthogonal_(self.weight)

    def gates(self, x: Tensor) -> Tensor:
        """The input's part of the gates, `[N, 3 S]` from `[N, I]`."""
        return product(x, self.input.weight, self.input.bias)

    def forward(self, gates: Tensor, state: Tensor, starts: Tensor) -> Tensor:
        """States after each step, `[T, B, S]`, from `gates [T, B, 3 S]`, the state before `[B, S]`, starts `[T, B]`."""
        keep = (~starts).to(state.dtype)
        fused = gates.device.type == "cpu" and gates.dtype == torch.float32
        unroll = _Fused.apply if fused else unroll_plainly
        return unroll(gates, state, keep, self.weight, self.bias)


def unroll_plainly(gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The recurrence step by step, differentiated by PyTorch: `[T, B, S]`. `keep [T, B]` is 0 at starts, else 1."""
    states = []
    for x, keep_t in zip(gates, keep.unsqueeze(-1), strict=True):
        h = keep_t * state
        x_r, x_z, x_n = x.chunk(3, dim=-1)
        h_r, h_z, h_n = (h @ weight.t()).chunk(3, dim=-1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * (h_n + bias))
        state = n + z * (h - n)
        states.append(state)
    return torch.stack(states)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        steps, batch, _ = gates.shape
        size = state.shape[1]
        # Kept for the gradient: the masked state, r, z, U_n h + b, n.
        before, r, z, hidden_n, n, after = gates.new_empty(6, steps, batch, size)
        weight = weight.to(product_dtype())
        hidden = _Product(weight.t(), batch)
        torch.mul(state, keep[0].unsqueeze(-1), out=before[0])
        tensors = (gates.contiguous(), keep, hidden.result, bias, before, r, z, hidden_n, n, after)
        arrays = [x.detach().numpy() for x in tensors]
        for t in range(steps):
            hidden(before[t])
            _step(t, *arrays)
        ctx.save_for_backward(keep, weight, before, r, z, hidden_n, n)
        return after

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        keep, weight, before, r, z, hidden_n, n = ctx.saved_tensors
        steps, batch, size = before.shape
        grad_gates = before.new_empty(steps, batch, 3 * size)
        grad_hidden = weight.new_empty(steps, batch, 3 * size)
        # The gradient of the masked state before each step: what passes z, and what passes U.
        past_z = torch.zeros_like(before[0])
        past_u = _Product(weight, batch)
        past_u.result.zero_()
        d_hidden = before.new_empty(batch, 3 * size)
        tensors = (gradients[0].contiguous(), keep, before, r, z, hidden_n, n)
        arrays = [x.numpy() for x in (*tensors, past_z, past_u.result, grad_gates, d_hidden)]
        for t in reversed(range(steps)):
            _step_back(t, *arrays)
            past_u(grad_hidden[t].copy_(d_hidden))
        grad_state = (past_z + past_u.result) * keep[0].unsqueeze(-1)
        flat = grad_hidden.flatten(0, 1)
        grad_weight = (flat.t() @ before.flatten(0, 1).to(flat.dtype)).float()
        grad_bias = flat[:, 2 * size :].float().sum(dim=0)
        return grad_gates, grad_state, None, grad_weight, grad_bias


class _Product:
    """x @ matrix into the same float32 array each time, in the matrix's type: `[B, N]` from `[B, M]`."""

    def __init__(self, matrix: Tensor, batch: int):
        self.matrix = matrix
        self.result = matrix.new_empty(batch, matrix.shape[1], dtype=torch.float32)

    def __call__(self, x: Tensor) -> None:
        if self.matrix.dtype == torch.float32:
            torch.mm(x, self.matrix, out=self.result)
        else:
            self.result.copy_(x.to(self.matrix.dtype) @ self.matrix)


@jit(inline="always", fastmath=FAST)
def _sigmoid(x):
    """1 / (1 + e⁻ˣ) to float32 precision, of operations that vectorise: 2ᵏ from bits, 2ᶠ by its series."""
    x = min(max(-x, np.float32(-60.0)), np.float32(60.0)) * np.float32(1.4426950408889634)
    k = np.floor(x + np.float32(0.5))
    f = (x - k) * np.float32(0.6931471805599453)
    series = np.float32(1 / 5040)
    series = series * f + np.float32(1 / 720)
    series = series * f + np.float32(1 / 120)
    series = series * f + np.float32(1 / 24)
    series = series * f + np.float32(1 / 6)
    series = series * f + np.float32(0.5)
    series = series * f + np.float32(1.0)
    series = series * f + np.float32(1.0)
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.float32(1.0) / (np.float32(1.0) + series * power)


@jit(inline="always", fastmath=FAST)
def _tanh(x):
    two = np.float32(2.0)
    return two * _sigmoid(two * x) - np.float32(1.0)


@jit(fastmath=FAST)
def _step(t, gates, keep, hidden, bias, before, r, z, hidden_n, n, after):
    size = before.shape[2]
    last = t + 1 == before.shape[0]
    for b in range(before.shape[1]):
        for i in range(size):
            r_i = _sigmoid(gates[t, b, i] + hidden[b, i])
            z_i = _sigmoid(gates[t, b, size + i] + hidden[b, size + i])
            hidden_i = hidden[b, 2 * size + i] + bias[i]
            n_i = _tanh(gates[t, b, 2 * size + i] + r_i * hidden_i)
            r[t, b, i], z[t, b, i], hidden_n[t, b, i], n[t, b, i] = r_i, z_i, hidden_i, n_i
            after[t, b, i] = n_i + z_i * (before[t, b, i] - n_i)
        if not last:
            for i in range(size):
                before[t + 1, b, i] = after[t, b, i] * keep[t + 1, b]


@jit(fastmath=FAST)
def _step_back(t, grad_after, keep, before, r, z, hidden_n, n, past_z, past_u, grad_gates, grad_hidden):
    size = before.shape[2]
    one = np.float32(1.0)
    last = t + 1 == before.shape[0]
    for b in range(before.shape[1]):
        keep_b = np.float32(0.0) if last else keep[t + 1, b]
        grads, gates = grad_hidden[b], grad_gates[t, b]
        for i in range(size):
            past_z[b, i] = grad_after[t, b, i] + (past_z[b, i] + past_u[b, i]) * keep_b
        # Short loops over few arrays: only those become vector instructions.
        for i in range(size):
            gates[2 * size + i] = past_z[b, i] * (one - z[t, b, i]) * (one - n[t, b, i] * n[t, b, i])
        for i in range(size):
            grads[i] = gates[2 * size + i] * hidden_n[t, b, i] * r[t, b, i] * (one - r[t, b, i])
            grads[2 * size + i] = gates[2 * size + i] * r[t, b, i]
        for i in range(size):
            grads[size + i] = past_z[b, i] * (before[t, b, i] - n[t, b, i]) * z[t, b, i] * (one - z[t, b, i])
            past_z[b, i] *= z[t, b, i]
        for i in range(2 * size):
            gates[i] = grads[i]
