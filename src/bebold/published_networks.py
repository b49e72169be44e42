"""The actor-critics of the papers: convolutions and an LSTM. Slow on a CPU; ours is in `networks.py`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bebold.config import NetworkConfig
from bebold.convolutions import bebold_encoder, ride_encoder
from bebold.encoding import distinct
from bebold.networks import Policy
from bebold.products import round_up


class MaskedLSTM(nn.Module):
    """An LSTM over time whose state is cleared where an episode starts.

    The state of all layers is one vector `[B, S]`: hidden ones first, then cells.
    """

    def __init__(self, inputs: int, memory: int, layers: int):
        super().__init__()
        self.lstm = nn.LSTM(inputs, memory, layers)
        self.size = 2 * layers * memory

    def forward(self, x: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs `[T, B, memory]` of inputs `[T, B, I]`, and the last state; `starts` bool `[T, B]`."""
        if len(x) == 1 and not torch.is_grad_enabled():  # acting: here whole layers cost almost twice as much
            return self._step(x[0], torch.where(starts[0].unsqueeze(-1), 0.0, state))
        outputs = []
        for first, last in _stretches(starts):
            state = torch.where(starts[first].unsqueeze(-1), 0.0, state)
            output, after = self.lstm(x[first:last], self._unpacked(state))
            outputs.append(output)
            state = torch.cat(after).transpose(0, 1).flatten(1)
        return torch.cat(outputs), state

    def _step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = self._unpacked(state)
        after = []
        for layer, weights in enumerate(self.lstm.all_weights):
            x, c = torch.lstm_cell(x, (hidden[layer], cell[layer]), *weights)
            after += [x, c]
        return x[None], torch.cat((*after[::2], *after[1::2]), dim=1)

    def _unpacked(self, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = state.unflatten(1, (-1, self.lstm.hidden_size)).transpose(0, 1).contiguous().chunk(2)
        return hidden, cell


def _stretches(starts: Tensor) -> list[tuple[int, int]]:
    """The longest stretches of time, as (first, end), within which no environment starts an episode."""
    begins = [0, *(starts[1:].any(dim=1).nonzero().squeeze(1) + 1).tolist()]
    return list(zip(begins, [*begins[1:], len(starts)], strict=True))


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
