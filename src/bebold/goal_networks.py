"""AMIGo's student (Campero et al. 2021): an actor-critic on the whole grid and a goal in it, without memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from bebold.config import NetworkConfig
from bebold.encoding import KINDS, CellEmbedding, SumOfRows, distinct, kinds
from bebold.jit import jit
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
            layers += [layer, nn.ELU(inplace=True)]
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
        load = touched(obs["image"])[..., 1, :]
        shown = [part.flatten(0, 1) for part in (obs["grid"], obs["goal"], load)]
        first, inverse = distinct(_as_bytes(shown))
        # Without memory, equal inputs have equal outputs: an agent that stands still is seen once.
        x = self.features(*(part[round_up(first)] for part in shown))
        outputs = self.head(x)[inverse].unflatten(0, starts.shape)
        return *outputs.tensor_split((self.num_actions,), dim=-1), state

    def features(self, grid: Tensor, goal: Tensor, load: Tensor) -> Tensor:
        """Turn uint8 `[N, W, H, 3]`, int64 `[N]` and uint8 `[N, 3]` into float32 `[N, 256]`."""
        layer, *others = self.convolutions
        assert isinstance(layer, nn.Conv2d)
        x = convolve_goal(grid, goal, self.embedding.table(), layer)
        for other in others:
            x = other(x)
        x = torch.cat((x.flatten(1), self.embedding(load)), dim=1)
        for dense_layer in (self.first, self.second):
            x = nn.functional.elu(product(x, dense_layer.weight, dense_layer.bias))
        return x


def convolve_goal(grid: Tensor, goal: Tensor, vectors: Tensor, layer: nn.Conv2d) -> Tensor:
    """A 3×3 convolution of stride 2 over cells' vectors and a channel that is 1 at the goal, float32 `[N, C, W', H']`.

    A cell contributes to an output one of few vectors, by its kind, by whether it is the goal and by where it lies in
    the patch. All of them are multiplied out once, and nine of them are added up for each output; the gradient is
    scattered back to them. It takes a third of the convolution's time, and no cell need be embedded.

    Parameters
    ----------
    grid : uint8 `[N, W, H, 3]`
    goal : int64 `[N]`, the cell x·H + y
    vectors : float32 `[KINDS, D]`, of each kind of cell
    layer : of D + 1 channels, padding 1

    Raises
    ------
    ValueError : a code is beyond those of MiniGrid's cells
    """
    marked = kinds(grid).contiguous()
    if int(marked.max()) >= KINDS:  # the kernel does not check
        raise ValueError("a code of the grid is beyond those of MiniGrid's cells")
    marked.flatten(1).scatter_(1, goal[:, None], KINDS, reduce="add")
    plain = nn.functional.pad(vectors, (0, 1))
    at_goal = nn.functional.pad(vectors, (0, 1), value=1.0)
    if grid.is_cuda:
        cells = nn.functional.embedding(marked, torch.cat((plain, at_goal)))
        return layer(cells.permute(0, 3, 1, 2))
    outside = torch.zeros_like(plain[:1])
    rows = torch.cat((outside, plain, at_goal))
    table = torch.einsum("kd,cdxy->xykc", rows, layer.weight).flatten(0, 2)
    patches = torch.from_numpy(_patches(marked.numpy(), len(rows)))
    assert layer.bias is not None
    x = SumOfRows.apply(patches.flatten(0, 2), table) + layer.bias
    return x.unflatten(0, patches.shape[:3]).permute(0, 3, 1, 2)


@jit
def _patches(marked, rows):
    """The row of the table that each cell of each 3×3 patch stands for: int32 `[N, W, H]` to `[N, W', H', 9]`."""
    count, width, height = marked.shape
    patches = np.empty((count, (width + 1) // 2, (height + 1) // 2, 9), np.int32)
    for n in range(count):
        for i in range(patches.shape[1]):
            for j in range(patches.shape[2]):
                for place in range(9):
                    x, y = 2 * i - 1 + place // 3, 2 * j - 1 + place % 3
                    inside = 0 <= x < width and 0 <= y < height
                    patches[n, i, j, place] = place * rows + (1 + marked[n, x, y] if inside else 0)
    return patches


def _as_bytes(parts: Sequence[Tensor]) -> Tensor:
    """The bytes of several tensors' rows `[N, ...]` side by side, uint8 `[N, bytes]`."""
    rows = [part.flatten(1) if part.ndim > 1 else part[:, None] for part in parts]
    return torch.cat([row.clone(memory_format=torch.contiguous_format).view(torch.uint8) for row in rows], dim=1)
