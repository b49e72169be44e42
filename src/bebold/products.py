"""Dense layers, and the number type their products run in."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor, nn


@cache
def product_dtype() -> torch.dtype:
    """The type large products run in: bfloat16 where the processor multiplies it natively, else float32."""
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)  # not part of torch's promised interface
    return torch.bfloat16 if native() else torch.float32


def product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x Wᵀ + b, on a CPU with the product in `product_dtype()`; the result is float32."""
    dtype = product_dtype() if x.device.type == "cpu" else x.dtype
    return (x.to(dtype) @ weight.to(dtype).t()).float() + bias


def dense(inputs: int, outputs: int, gain: float = math.sqrt(2)) -> nn.Linear:
    """Linear layer with orthogonal weights and zero bias (as in OpenAI's baselines)."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def round_up(index: Tensor, multiple: int = 64) -> Tensor:
    """Repeat the first index until there are a multiple of `multiple`.

    oneDNN compiles a kernel for every new shape and keeps it: few shapes save most of that time and memory.
    """
    return torch.cat((index, index[:1].expand(-len(index) % multiple)))
