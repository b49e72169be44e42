"""What the networks of a novelty see of an observation, and how they are built."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from bebold.encoding import OneHotLinear
from bebold.errors import UsageError
from bebold.views import touched

SOURCES = {
    "onehot": "image",
    "contact": "image",
    "shapes": "image",
    "codes": "image",
    "integers": "image",
    "bytes": "image",
    "raw": "vector",
}
"""Which observation each encoding reads."""
FACTORS = {"codes": 0.1, "integers": 1.0, "bytes": 1 / 255, "raw": 1.0}
"""What codes are multiplied with, where they are not one-hot."""


def source(encoding: str) -> str:
    """The name of the observation that this encoding reads.

    Raises
    ------
    UsageError : there is no such encoding
    """
    if encoding not in SOURCES:
        raise UsageError(f"there is no encoding '{encoding}'; choose one of {', '.join(SOURCES)}")
    return SOURCES[encoding]


def seen(encoding: str, every: Tensor) -> Tensor:
    """Of observations `[N, ...]`, what the encoding looks at."""
    if encoding == "contact":
        return touched(every).contiguous()
    if encoding == "shapes":
        every = every.clone()
        every[..., 1] = 0  # of (object, colour, state)
    return every


class Scaled(nn.Module):
    """Observations as flat float32 vectors, times a factor: `[N, ...]` to `[N, width]`."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, obs: Tensor) -> Tensor:
        return obs.flatten(1).float() * self.factor


def dense_layers(
    encoding: str, shape: tuple[int, ...], hidden: int, layers: int, outputs: int, generator: torch.Generator
) -> nn.Sequential:
    """`layers` hidden layers with ReLU on the encoded observation; orthogonal weights, zero biases.

    `shape` is that of one observation, whole.
    """
    size = touched(torch.empty(shape)).numel() if encoding == "contact" else math.prod(shape)
    widths = [size, *[hidden] * layers, outputs]
    linears: list[nn.Linear | OneHotLinear] = [nn.utils.skip_init(nn.Linear, *pair) for pair in pairwise(widths)]
    parts: list[nn.Module] = []
    if encoding in FACTORS:
        parts.append(Scaled(FACTORS[encoding]))
    else:
        linears[0] = OneHotLinear(size // 3, widths[1])
    for linear in linears:
        last = linear is linears[-1]
        nn.init.orthogonal_(linear.weight, gain=1.0 if last else 2**0.5, generator=generator)
        nn.init.zeros_(linear.bias)
        parts += [linear] if last else [linear, nn.ReLU()]
    return nn.Sequential(*parts)


def factor(encoding: str, shape: tuple[int, ...]) -> float:
    """What convolutions multiply the codes of a view with.

    Raises
    ------
    UsageError : the encoding is one-hot, or of vectors
    """
    if encoding not in FACTORS or len(shape) != 3:
        raise UsageError(
            f"convolutions read the codes of a view, and the encoding is '{encoding}'; choose codes, integers or bytes"
        )
    return FACTORS[encoding]
