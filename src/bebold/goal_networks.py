"""AMIGo's student (Campero et al. 2021): an actor-critic on the whole grid and a goal in it, without memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from bebold.config import NetworkConfig
from bebold.encoding import KINDS, CellEmbedding, SumOfRows, distinct, kinds
from bebold.hashing import mix
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
        cells, rows = goal_cells(grid, goal, self.embedding.table())
        if grid.is_cuda:
            x = self.convolutions(nn.functional.embedding(cells, rows).permute(0, 3, 1, 2))
        else:
            x = convolve_distinct(cells, rows, [layer for layer in self.convolutions if isinstance(layer, nn.Conv2d)])
        x = torch.cat((x.flatten(1), self.embedding(load)), dim=1)
        for dense_layer in (self.first, self.second):
            x = nn.functional.elu(product(x, dense_layer.weight, dense_layer.bias))
        return x


def goal_cells(grid: Tensor, goal: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The kind of each cell, int32 `[N, W, H]`, twice as many as before as it may be the goal, and their vectors.

    Parameters
    ----------
    grid : uint8 `[N, W, H, 3]`
    goal : int64 `[N]`, the cell x·H + y
    vectors : float32 `[KINDS, D]`, of each kind of cell; those returned are `[2 KINDS, D + 1]`, and mark the goal

    Raises
    ------
    ValueError : a code is beyond those of MiniGrid's cells
    """
    cells = kinds(grid).contiguous()
    if int(cells.max()) >= KINDS:  # what looks them up does not check
        raise ValueError("a code of the grid is beyond those of MiniGrid's cells")
    cells.flatten(1).scatter_(1, goal[:, None], KINDS, reduce="add")
    return cells, torch.cat((nn.functional.pad(vectors, (0, 1)), nn.functional.pad(vectors, (0, 1), value=1.0)))


def convolve_distinct(cells: Tensor, rows: Tensor, layers: Sequence[nn.Conv2d]) -> Tensor:
    """3×3 convolutions of stride 2, each followed by an ELU, float32 `[N, C, W', H']`.

    Grids are mostly walls and empty rooms, and a step changes a cell or two: of the patches that a layer looks at, few
    differ. Each distinct one is multiplied once, in every layer, as what the layer before found of equal patches is
    equal too. Of a rollout's a tenth is left in the second layer, the costliest.

    Parameters
    ----------
    cells : int32 `[N, W, H]`, which of the rows each cell is
    rows : float32 `[K, D]`
    layers : the first one of D channels, all of padding 1
    """
    for layer in layers:
        patches, cells = map(torch.from_numpy, _distinct_patches(cells.numpy()))
        places = patches[round_up(torch.arange(len(patches)))].view(-1, 1)
        seen = SumOfRows.apply(places, nn.functional.pad(rows, (0, 0, 1, 0))).view(-1, 9 * rows.shape[1])
        weight = layer.weight.permute(0, 2, 3, 1).flatten(1)
        assert layer.bias is not None
        rows = nn.functional.elu(torch.addmm(layer.bias, seen, weight.t()), inplace=True)
    found = SumOfRows.apply(cells.view(-1, 1), rows)
    return found.view(*cells.shape, -1).permute(0, 3, 1, 2)


@jit
def _distinct_patches(cells):
    """Number the distinct 3×3 patches of int32 `[N, W, H]`, every second place in both directions, by a 64-bit hash.

    Returns 1 + each of its cells, or 0 outside, int32 `[U, 9]`, and the number of each patch, int32 `[N, W', H']`.
    """
    count, width, height = cells.shape
    numbers = np.empty((count, (width + 1) // 2, (height + 1) // 2), np.int32)
    slots = 2
    while slots < 2 * numbers.size:
        slots *= 2
    mask = np.uint64(slots - 1)
    number = np.full(slots, -1, np.int32)
    keys = np.empty(numbers.size, np.uint64)
    patches = np.empty((numbers.size, 9), np.int32)
    found = 0
    patch = np.empty(9, np.int32)
    for n in range(count):
        for i in range(numbers.shape[1]):
            for j in range(numbers.shape[2]):
                key = np.uint64(0)
                for place in range(9):
                    x, y = 2 * i - 1 + place // 3, 2 * j - 1 + place % 3
                    inside = 0 <= x < width and 0 <= y < height
                    patch[place] = 1 + cells[n, x, y] if inside else 0
                    key = key * np.uint64(0x9E3779B97F4A7C15) + np.uint64(patch[place])
                key = mix(key)
                at = key & mask
                while number[at] >= 0 and keys[number[at]] != key:
                    at = (at + np.uint64(1)) & mask
                if number[at] < 0:
                    number[at] = found
                    keys[found] = key
                    patches[found] = patch
                    found += 1
                numbers[n, i, j] = number[at]
    return patches[:found], numbers


def _as_bytes(parts: Sequence[Tensor]) -> Tensor:
    """The bytes of several tensors' rows `[N, ...]` side by side, uint8 `[N, bytes]`."""
    rows = [part.flatten(1) if part.ndim > 1 else part[:, None] for part in parts]
    return torch.cat([row.clone(memory_format=torch.contiguous_format).view(torch.uint8) for row in rows], dim=1)
