"""The convolutional encoders that published agents see a view with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class Codes(nn.Module):
    """The codes of cells as numbers, times a factor, channels first: uint8 `[N, H, W, C]` to float32 `[N, C, H, W]`."""

    def __init__(self, factor: float = 1.0):
        super().__init__()
        self.factor = factor

    def forward(self, image: Tensor) -> Tensor:
        return image.movedim(-1, 1).float() * self.factor


def convolutions(channels: Sequence[int], strides: Sequence[int]) -> list[nn.Module]:
    """3 x 3 convolutions with padding 1, each followed by an ELU; `channels` begins with those of the input."""
    layers: list[nn.Module] = []
    for (inputs, outputs), stride in zip(pairwise(channels), strides, strict=True):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1), nn.ELU()]
    return layers


def flat_size(layers: Sequence[nn.Module], shape: Sequence[int]) -> int:
    """How many numbers come out of `layers` for one image `[H, W, C]`."""
    with torch.no_grad():
        out = torch.zeros(1, shape[-1], *shape[:-1])
        for layer in layers:
            out = layer(out)
    return out.numel()


def orthogonal_(module: nn.Module, gain: float = 2**0.5) -> nn.Module:
    """Orthogonal weights and zero biases in all convolutions and dense layers, in place."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(part.get_parameter("weight"), gain)
            nn.init.zeros_(part.get_parameter("bias"))
    return module


def bebold_encoder(shape: Sequence[int], outputs: int = 1024, factor: float = 1.0) -> nn.Sequential:
    """BeBold's released encoder of a view: uint8 `[N, H, W, 3]` to float32 `[N, outputs]`.

    Convolutions of 32, 128 and 512 channels on the codes, times a factor (there 1), then two dense layers with ReLU;
    orthogonal weights.
    """
    layers = convolutions((shape[-1], 32, 128, 512), (1, 2, 2))
    size = flat_size(layers, shape)
    dense = (nn.Linear(size, outputs), nn.ReLU(), nn.Linear(outputs, outputs), nn.ReLU())
    encoder = nn.Sequential(Codes(factor), *layers, nn.Flatten(), *dense)
    orthogonal_(encoder)
    return encoder


def ride_encoder(shape: Sequence[int], last: int = 128, factor: float = 1.0) -> nn.Sequential:
    """RIDE's encoder of a view (Raileanu and Rocktäschel 2020): uint8 `[N, H, W, 3]` to float32 `[N, last]` for 7 x 7.

    Three convolutions of stride 2 with 32, 32 and `last` channels; orthogonal weights. `factor` scales the codes.
    """
    layers = convolutions((shape[-1], 32, 32, last), (2, 2, 2))
    encoder = nn.Sequential(Codes(factor), *layers, nn.Flatten())
    orthogonal_(encoder)
    return encoder
