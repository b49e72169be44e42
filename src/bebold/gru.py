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
from bebold.pointwise import FAST, get, memory_of, put, sigmoid, tanh
from bebold.products import dense, product, product_dtype


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

    def forward(self, gates: Tensor, row: Tensor, state: Tensor, starts: Tensor) -> Tensor:
        """States after each step, float32 `[T, B, S]`.

        Parameters
        ----------
        gates : float32 `[N, 3 S]`
        row : int64 `[T, B]`, which of them is each step's
        state : float32 `[B, S]`, before the first step
        starts : bool `[T, B]`, where the state is cleared first
        """
        keep = (~starts).to(state.dtype)
        fused = gates.device.type == "cpu" and gates.dtype == torch.float32
        unroll = _Fused.apply if fused else unroll_plainly
        return unroll(gates, row, state, keep, self.weight, self.bias)


def unroll_plainly(gates: Tensor, row: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The recurrence step by step, differentiated by PyTorch: `[T, B, S]`. `keep [T, B]` is 0 at starts, else 1."""
    states = []
    for x, keep_t in zip(gates[row], keep.unsqueeze(-1), strict=True):
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
    def forward(
        ctx: Any, table: Tensor, row: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        steps, batch = row.shape
        size = state.shape[1]
        dtype = product_dtype()
        weight = weight.to(dtype)
        # Kept for the gradient: the state before and after each step, r, z, U_n h + b, n, and what U multiplied.
        states = table.new_empty(steps + 1, batch, size)
        r, z, hidden_n, n = table.new_empty(4, steps, batch, size)
        masked = table.new_empty(steps, batch, size, dtype=dtype)
        hidden = table.new_empty(batch, 3 * size, dtype=dtype)
        states[0] = state
        torch.mul(state, keep[0].unsqueeze(-1), out=masked[0])
        arrays = [
            memory_of(x) for x in (table.contiguous(), row, keep, hidden, bias, states, masked, r, z, hidden_n, n)
        ]
        matrix = weight.t()
        for t, masked_t in enumerate(masked):
            torch.mm(masked_t, matrix, out=hidden)
            _step(t, *arrays)
        ctx.save_for_backward(row, keep, weight, states, masked, r, z, hidden_n, n)
        ctx.rows = len(table)
        return states[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        row, keep, weight, states, masked, r, z, hidden_n, n = ctx.saved_tensors
        steps, batch, size = masked.shape
        grad_table = states.new_zeros(ctx.rows, 3 * size)
        grad_hidden = weight.new_empty(steps, batch, 3 * size)
        # The gradient of the state before each step: what passes z, and what passes U.
        past_z = states.new_zeros(batch, size)
        past_u = weight.new_zeros(batch, size)
        tensors = (gradients[0].contiguous(), row, keep, states, r, z, hidden_n, n)
        arrays = [memory_of(x) for x in (*tensors, past_z, past_u, grad_table, grad_hidden)]
        for t in reversed(range(steps)):
            _step_back(t, *arrays)
            torch.mm(grad_hidden[t], weight, out=past_u)
        grad_state = (past_z + past_u) * keep[0].unsqueeze(-1)
        flat = grad_hidden.flatten(0, 1)
        grad_weight = (flat.t() @ masked.flatten(0, 1)).float()
        grad_bias = flat[:, 2 * size :].float().sum(dim=0)
        return grad_table, None, grad_state, None, grad_weight, grad_bias


@jit(fastmath=FAST, nogil=True)
def _step(t, table, row, keep, hidden, bias, states, masked, r, z, hidden_n, n):
    size = r.shape[2]
    for b in range(r.shape[1]):
        gates, hidden_b = table[row[t, b]], hidden[b]
        h, after, keep_b = states[t, b], states[t + 1, b], keep[t, b]
        for i in range(size):
            r_i = sigmoid(gates[i] + get(hidden_b, i))
            z_i = sigmoid(gates[size + i] + get(hidden_b, size + i))
            hidden_i = get(hidden_b, 2 * size + i) + bias[i]
            n_i = tanh(gates[2 * size + i] + r_i * hidden_i)
            r[t, b, i], z[t, b, i], hidden_n[t, b, i], n[t, b, i] = r_i, z_i, hidden_i, n_i
            after[i] = n_i + z_i * (keep_b * h[i] - n_i)
        if t + 1 < r.shape[0]:
            keep_after, masked_b = keep[t + 1, b], masked[t + 1, b]
            for i in range(size):
                put(masked_b, i, after[i] * keep_after)


@jit(fastmath=FAST, nogil=True)
def _step_back(t, grad_after, row, keep, states, r, z, hidden_n, n, past_z, past_u, grad_table, grad_hidden):
    size = r.shape[2]
    one = np.float32(1.0)
    last = t + 1 == r.shape[0]
    gates = np.empty(3 * size, np.float32)
    for b in range(r.shape[1]):
        keep_after = np.float32(0.0) if last else keep[t + 1, b]
        grads, total, past_b = grad_hidden[t, b], grad_table[row[t, b]], past_u[b]
        for i in range(size):
            past_z[b, i] = grad_after[t, b, i] + (past_z[b, i] + get(past_b, i)) * keep_after
        # Short loops over few arrays: only those become vector instructions.
        for i in range(size):
            gates[2 * size + i] = past_z[b, i] * (one - z[t, b, i]) * (one - n[t, b, i] * n[t, b, i])
        for i in range(size):
            gates[i] = gates[2 * size + i] * hidden_n[t, b, i] * r[t, b, i] * (one - r[t, b, i])
        for i in range(size):
            change = keep[t, b] * states[t, b, i] - n[t, b, i]
            gates[size + i] = past_z[b, i] * change * z[t, b, i] * (one - z[t, b, i])
            past_z[b, i] *= z[t, b, i]
        for i in range(2 * size):
            put(grads, i, gates[i])
        for i in range(size):
            put(grads, 2 * size + i, gates[2 * size + i] * r[t, b, i])
        for i in range(3 * size):
            total[i] += gates[i]
