"""Actor-critics: torso, recurrent core, policy logits and one or two values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from bebold.config import NetworkConfig
from bebold.encoding import OneHotLinear, distinct


@dataclass(frozen=True)
class Step:
    """What a policy says of `B` observations."""

    action: Tensor
    """int64 `[B]`."""
    log_prob: Tensor
    """float32 `[B]`."""
    logits: Tensor
    """float32 `[B, A]`."""
    value: Tensor
    """float32 `[B, H]`."""
    state: Tensor
    """float32 `[B, S]`: recurrent state after these observations."""


class ViewTorso(nn.Module):
    """Two dense layers on the one-hot view."""

    def __init__(self, cells: int, hidden: int):
        super().__init__()
        self.first = OneHotLinear(cells, hidden)
        nn.init.orthogonal_(self.first.weight, math.sqrt(2))
        self.second = dense(hidden, hidden)

    def forward(self, image: Tensor) -> Tensor:
        """Turn uint8 `[N, 7, 7, 3]` into float32 `[N, hidden]`."""
        x = torch.relu(self.first(image))
        return torch.relu(product(x, self.second.weight, self.second.bias))


class _Unroll(torch.autograd.Function):
    """The recurrence of a GRU whose state is cleared where an episode starts, differentiated by hand.

    The products with the input are made outside, the weight gradient is one matrix product at the end; only what
    depends on the step before stays in the loop. With x the input's part of the gates (Cho et al. 2014):
    r, z = σ(x_rz + U_rz h), n = tanh(x_n + r·(U_n h + b_n)), h' = n + z·(h - n)
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        steps, batch, _ = gates.shape
        size = state.shape[1]
        before, hidden_n, candidate, after = gates.new_empty(4, steps, batch, size)
        rz = gates.new_empty(steps, batch, 2 * size)
        weight = weight.to(product_dtype())
        weight_t = weight.t()
        # One call that makes all views of the steps is cheaper than indexing in the loop.
        views = (gates[..., : 2 * size], gates[..., 2 * size :], keep, before, rz, hidden_n, candidate, after)
        for x_rz, x_n, keep_t, h, rz_t, hidden_n_t, n, h_next in zip(*(x.unbind() for x in views), strict=True):
            torch.mul(state, keep_t, out=h)
            hidden_rz, hidden = (h.to(weight.dtype) @ weight_t).split((2 * size, size), dim=1)
            r, z = torch.add(x_rz, hidden_rz, out=rz_t).sigmoid_().chunk(2, dim=1)
            torch.add(bias, hidden, out=hidden_n_t)
            tanh_(torch.addcmul(x_n, r, hidden_n_t, out=n))
            state = torch.lerp(n, h, z, out=h_next)
        ctx.save_for_backward(before, rz, hidden_n, candidate, keep, weight)
        return after

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (grad_after,) = gradients
        before, rz, hidden_n, n, keep, weight = ctx.saved_tensors
        steps, batch, size = before.shape
        r, z = rz.chunk(2, dim=-1)
        slope_n = (1 - z) * (1 - n * n)
        slope_z = (before - n) * z * (1 - z)
        slope_r = hidden_n * r * (1 - r)
        grad_gates = grad_after.new_empty(steps, batch, 3 * size)
        grad_hidden = weight.new_empty(steps, batch, 3 * size)
        grad_r, grad_z, grad_n = grad_gates.chunk(3, dim=-1)
        views = (
            grad_after,
            keep,
            r,
            z,
            slope_r,
            slope_z,
            slope_n,
            grad_gates,
            grad_r,
            grad_z,
            grad_n,
            grad_hidden,
        )
        carried = torch.zeros_like(grad_after[0])
        for step in reversed(list(zip(*(x.unbind() for x in views), strict=True))):
            grad_t, keep_t, r_t, z_t, by_r, by_z, by_n, d_gates, d_r, d_z, d_n, d_hidden = step
            grad_h = carried.add_(grad_t)
            torch.mul(grad_h, by_n, out=d_n)
            torch.mul(grad_h, by_z, out=d_z)
            torch.mul(d_n, by_r, out=d_r)
            d_hidden.copy_(d_gates)
            d_hidden[:, 2 * size :].mul_(r_t)
            carried = grad_h.mul_(z_t).add_(d_hidden @ weight).mul_(keep_t)
        flat = grad_hidden.flatten(0, 1)
        grad_weight = (flat.t() @ before.flatten(0, 1).to(flat.dtype)).float()
        grad_bias = flat[:, 2 * size :].float().sum(dim=0)
        return grad_gates, carried, None, grad_weight, grad_bias


class MaskedGRU(nn.Module):
    """A GRU whose state is cleared where an episode starts, without splitting sequences (Cho et al. 2014)."""

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
        keep = (~starts).to(state.dtype).unsqueeze(-1)
        return _Unroll.apply(gates, state, keep, self.weight, self.bias)


class ActorCritic(nn.Module):
    """Recurrent actor-critic on MiniGrid views. The heads see the memory and, past it, the torso."""

    needs = frozenset({"image"})
    """The observations it looks at."""

    def __init__(self, image_shape: tuple[int, ...], num_actions: int, config: NetworkConfig):
        super().__init__()
        self.image_shape = tuple(image_shape)
        self.torso = ViewTorso(math.prod(self.image_shape[:-1]), config.hidden)
        self.core = MaskedGRU(config.hidden, config.memory)
        self.num_actions = num_actions
        outputs = num_actions + config.value_heads
        self.view_head = nn.Linear(config.hidden, outputs, bias=False)
        self.memory_head = nn.Linear(config.memory, outputs)
        nn.init.zeros_(self.memory_head.bias)
        for head in (self.view_head, self.memory_head):
            nn.init.orthogonal_(head.weight[:num_actions], 0.01)
            nn.init.orthogonal_(head.weight[num_actions:], 1.0)
        self.memory = config.memory

    def initial_state(self, num_envs: int) -> Tensor:
        """Zeros, float32 `[B, S]`."""
        return self.memory_head.weight.new_zeros(num_envs, self.memory)

    def unroll(self, obs: Mapping[str, Tensor], state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run over time: logits `[T, B, A]`, values `[T, B, H]` and the last state `[B, S]`.

        Parameters
        ----------
        obs : `image` uint8 `[T, B, 7, 7, 3]`
        state : float32 `[B, S]`, before the first observation
        starts : bool `[T, B]`, where the state is cleared first
        """
        image = obs["image"].flatten(0, 1)
        first, inverse, _ = distinct(image)
        x = self.torso(image[round_up(first)])
        gates = self.core.gates(x).index_select(0, inverse).unflatten(0, starts.shape)
        heads = self.view_head(x).index_select(0, inverse).unflatten(0, starts.shape)
        memory = self.core(gates, state, starts)
        logits_and_value = heads + self.memory_head(memory)
        return *logits_and_value.tensor_split((self.num_actions,), dim=-1), memory[-1]

    @torch.no_grad()
    def act(
        self,
        obs: Mapping[str, Tensor],
        state: Tensor,
        starts: Tensor,
        *,
        greedy: bool = False,
        generator: torch.Generator | None = None,
    ) -> Step:
        """Choose actions for observations `[B, ...]`: sampled, or the most likely if `greedy`."""
        logits, value, state = self.unroll({"image": obs["image"][None]}, state, starts[None])
        log_probs = logits[0].log_softmax(dim=-1)
        if greedy:
            action = log_probs.argmax(dim=-1)
        else:
            action = torch.multinomial(log_probs.exp(), 1, generator=generator).squeeze(-1)
        log_prob = log_probs.gather(-1, action[:, None]).squeeze(-1)
        return Step(action, log_prob, logits[0], value[0], state)


def dense(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> nn.Linear:
    """Linear layer with orthogonal weights and zero bias (as in OpenAI's baselines)."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def tanh_(x: Tensor) -> Tensor:
    """tanh(x) = 2 σ(2x) - 1, in place: PyTorch's sigmoid is several times as fast as its tanh."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


@cache
def product_dtype() -> torch.dtype:
    """The type large products run in: bfloat16 where the processor multiplies it natively, else float32."""
    return torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32


def round_up(index: Tensor, multiple: int = 64) -> Tensor:
    """Repeat the first index until there are a multiple of `multiple`.

    oneDNN compiles a kernel for every new shape and keeps it: few shapes save most of that time and memory.
    """
    return torch.cat((index, index[:1].expand(-len(index) % multiple)))


def product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x Wᵀ + b with the product in `product_dtype()`; the result is float32."""
    dtype = product_dtype()
    return (x.to(dtype) @ weight.to(dtype).t()).float() + bias
