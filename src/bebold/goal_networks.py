"""AMIGo's student (Campero et al. 2021): an actor-critic on the whole grid and a goal in it, without memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from bebold.config import NetworkConfig
from bebold.encoding import CellEmbedding
from bebold.networks import Policy
from bebold.products import dense, product, round_up
from bebold.views import touched

CHANNELS = 32
LAYERS = 5
WIDTH = 256


class GoalActorCritic(Policy):
    """Five 3×3 convolutions of stride 2, two dense layers, linear heads.

    Cells are embedded, and one channel more marks the goal. What the agent carries, which the whole grid does not show,
    is embedded like a cell and joins what the convolutions found. The sizes are AMIGo's; of the settings only
    `value_heads` counts.
    """

    needs = frozenset({"grid", "goal", "image"})
    source = "grid"

    def __init__(self, grid_shape: tuple[int, ...], num_actions: int, config: NetworkConfig):
        super().__init__()
        width, height, _ = grid_shape
        self.num_actions = num_actions
        self.embedding = CellEmbedding()
        layers: list[nn.Module] = []
        channels = CellEmbedding.WIDTH + 1
        for _ in range(LAYERS):
            layer = nn.Conv2d(channels, CHANNELS, 3, stride=2, padding=1)
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            layers += [layer, nn.ELU()]
            channels, width, height = CHANNELS, (width + 1) // 2, (height + 1) // 2
        self.convolutions = nn.Sequential(*layers)
        self.first = dense(CHANNELS * width * height + CellEmbedding.WIDTH, WIDTH)
        self.second = dense(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, num_actions + config.value_heads)
        nn.init.orthogonal_(self.head.weight[:num_actions], 0.01)
        nn.init.orthogonal_(self.head.weight[num_actions:], 1.0)
        nn.init.zeros_(self.head.bias)

    def initial_state(self, num_envs: int) -> Tensor:
        """Nothing, float32 `[B, 0]`."""
        return self.head.weight.new_zeros(num_envs, 0)

    def unroll(self, obs: Mapping[str, Tensor], state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Policy.unroll`; `grid` is uint8 `[T, B, W, H, 3]`, `goal` int64 `[T, B]`, the cell x·H + y, and `image`
        the view, uint8 `[T, B, 7, 7, 3]`, in which the agent's own cell shows what it carries."""
        rows = torch.arange(starts.numel(), device=starts.device)
        padded = round_up(rows)
        load = touched(obs["image"])[..., 1, :]
        x = self.features(*(part.flatten(0, 1)[padded] for part in (obs["grid"], obs["goal"], load)))
        outputs = self.head(x)[: len(rows)].unflatten(0, starts.shape)
        return *outputs.tensor_split((self.num_actions,), dim=-1), state

    def features(self, grid: Tensor, goal: Tensor, load: Tensor) -> Tensor:
        """Turn uint8 `[N, W, H, 3]`, int64 `[N]` and uint8 `[N, 3]` into float32 `[N, 256]`."""
        marked = torch.zeros(grid.shape[:3], device=grid.device)
        marked.flatten(1).scatter_(1, goal[:, None], 1.0)
        cells = torch.cat((self.embedding(grid), marked[..., None]), dim=-1)
        x = self.convolutions(cells.permute(0, 3, 1, 2)).flatten(1)
        x = torch.cat((x, self.embedding(load)), dim=1)
        for layer in (self.first, self.second):
            x = nn.functional.elu(product(x, layer.weight, layer.bias))
        return x
