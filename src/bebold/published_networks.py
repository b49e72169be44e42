"""The actor-critics of the papers: convolutions and an LSTM. Slow on a CPU; ours is in `networks.py`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from bebold.config import NetworkConfig
from bebold.convolutions import bebold_encoder, ride_encoder
from bebold.encoding import distinct
from bebold.lstm import MaskedLSTM
from bebold.networks import Policy
from bebold.products import round_up


class ConvLSTM(Policy):
    """Convolutions on the codes of a view, an LSTM, and linear heads on its output.

    bebold: 32, 128 and 512 channels, two dense layers of `hidden`, an LSTM of two layers of `memory` (BeBold's released
    code: both 1024, 20.6 M parameters). ride: three times 32 channels, an LSTM of one layer (RIDE: 256).
    """

    needs = frozenset({"image"})
    source = "image"

    def __init__(self, image_shape: tuple[int, ...], num_actions: int, config: NetworkConfig):
        super().__init__()
        self.image_shape = tuple(image_shape)
        self.num_actions = num_actions
        released = config.architecture == "bebold"
        self.torso = bebold_encoder(image_shape, config.hidden) if released else ride_encoder(image_shape, 32)
        width = config.hidden if released else self.torso(torch.zeros(1, *image_shape, dtype=torch.uint8)).shape[1]
        self.core = MaskedLSTM(width, config.memory, layers=2 if released else 1)
        self.head = nn.Linear(config.memory, num_actions + config.value_heads)

    def initial_state(self, num_envs: int) -> Tensor:
        """Zeros, float32 `[B, S]`."""
        return self.head.weight.new_zeros(num_envs, self.core.size)

    def unchanged(self) -> AbstractContextManager[None]:
        """As `Policy.unchanged`: the LSTM's weights are rounded once."""
        return self.core.unchanged()

    def unroll(self, obs: Mapping[str, Tensor], state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Policy.unroll`; `image` is uint8 `[T, B, 7, 7, 3]`."""
        image = obs["image"].flatten(0, 1)
        if len(starts) == 1:  # acting: too few to be worth the search for equal ones
            x = self.torso(image)[None]
        else:
            first, inverse = distinct(image)
            x = self.torso(image[round_up(first)]).index_select(0, inverse).unflatten(0, starts.shape)
        output, state = self.core(x, state, starts)
        return *self.head(output).tensor_split((self.num_actions,), dim=-1), state
