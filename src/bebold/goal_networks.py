"""AMIGo's student (Campero et al. 2021): an actor-critic on the whole grid and a goal in it, without memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

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
MOST = 2**16
"""Patches of a layer that are kept, about: 8 MiB of what was made of them, and as much room. A rollout on 25 x 25
cells has 16 000."""


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
        self._known: list[Patches] | None = None
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

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Keep what the convolutions make of patches: most that a step shows were there a step before."""
        self._known = [Patches() for _ in range(LAYERS)]
        try:
            yield
        finally:
            self._known = None

    def _known_patches(self) -> list[Patches] | None:
        if self._known is not None and max(patches.count for patches in self._known) > MOST:
            self._known = [Patches() for _ in range(LAYERS)]
        return self._known

    def features(self, grid: Tensor, goal: Tensor, load: Tensor) -> Tensor:
        """Turn uint8 `[N, W, H, 3]`, int64 `[N]` and uint8 `[N, 3]` into float32 `[N, 256]`."""
        cells, rows = goal_cells(grid, goal, self.embedding.table())
        if grid.is_cuda:
            x = self.convolutions(nn.functional.embedding(cells, rows).permute(0, 3, 1, 2))
        else:
            layers = [layer for layer in self.convolutions if isinstance(layer, nn.Conv2d)]
            x = convolve_distinct(cells, rows, layers, None if torch.is_grad_enabled() else self._known_patches())
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


class Patches:
    """Numbers the distinct 3×3 patches that a layer looks at, every second place in both directions, by a 64-bit hash.

    Numbers go on across calls. `rows` is what the layer makes of them, float32 `[1 + R, D]`: a row of zeros for what
    lies outside of the grid, then one of each, and room for more.
    """

    def __init__(self) -> None:
        self.count = 0
        self.rows = torch.empty(0)
        self._keys = np.empty(0, np.uint64)
        self._numbers = np.full(1, -1, np.int32)

    def number(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Turn int32 `[N, W, H]` into the patches that are new, and the number of each patch, int32 `[N, W', H']`.

        Of a new patch 1 + each of its cells is given, or 0 outside, int32 `[U, 9]`.
        """
        count, width, height = cells.shape
        most = self.count + count * ((width + 1) // 2) * ((height + 1) // 2)
        if len(self._keys) < most:
            self._keys = np.concatenate((self._keys, np.empty(most, np.uint64)))
            self._numbers = np.full(2 ** (2 * len(self._keys)).bit_length(), -1, np.int32)
            _fill(self._numbers, self._keys[: self.count])
        patches, numbers = _number_patches(cells, self._numbers, self._keys, self.count)
        self.count += len(patches)
        return patches, numbers

    def keep(self, made: Tensor, before: int) -> None:
        """Enter rows for the patches from `before` on, `[N, D]`: as many as are new, or more, which do not count."""
        if not before:
            self.rows = _outside_first(made)
            return
        end = 1 + before + len(made)
        if len(self.rows) < end:
            self.rows = torch.cat((self.rows, self.rows.new_empty(end, made.shape[1])))
        self.rows[1 + before : end] = made


def convolve_distinct(
    cells: Tensor, rows: Tensor, layers: Sequence[nn.Conv2d], known: Sequence[Patches] | None = None
) -> Tensor:
    """3×3 convolutions of stride 2, each followed by an ELU, float32 `[N, C, W', H']`.

    Grids are mostly walls and empty rooms, and a step changes a cell or two: of the patches that a layer looks at, few
    differ. Each distinct one is multiplied once, in every layer, as what the layer before found of equal patches is
    equal too. Of a rollout's a tenth is left in the second layer, the costliest.

    Parameters
    ----------
    cells : int32 `[N, W, H]`, which of the rows each cell is
    rows : float32 `[K, D]`
    layers : the first one of D channels, all of padding 1
    known : of each layer what earlier calls with the same rows and weights have multiplied, to be added to
    """
    rows = _outside_first(rows)
    for layer, patches in zip(layers, known or [Patches() for _ in layers], strict=True):
        before = patches.count
        new, cells = map(torch.from_numpy, patches.number(cells.numpy()))
        if len(new):
            places = new[round_up(torch.arange(len(new)))].view(-1, 1)
            seen = SumOfRows.apply(places, rows).view(-1, 9 * rows.shape[1])
            weight = layer.weight.permute(0, 2, 3, 1).flatten(1)
            assert layer.bias is not None
            patches.keep(nn.functional.elu(torch.addmm(layer.bias, seen, weight.t()), inplace=True), before)
        rows = patches.rows
    found = SumOfRows.apply(1 + cells.view(-1, 1), rows)
    return found.view(*cells.shape, -1).permute(0, 3, 1, 2)


def _outside_first(rows: Tensor) -> Tensor:
    """A row of zeros, then `rows` `[N, D]`."""
    return nn.functional.pad(rows, (0, 0, 1, 0))


@jit
def _number_patches(cells, number, keys, found):
    """See `Patches.number`: `number` has a patch's number at a place that its key leads to, `keys` its key."""
    count, width, height = cells.shape
    numbers = np.empty((count, (width + 1) // 2, (height + 1) // 2), np.int32)
    patches = np.empty((numbers.size, 9), np.int32)
    mask = np.uint64(len(number) - 1)
    before = found
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
                    patches[found - before] = patch
                    found += 1
                numbers[n, i, j] = number[at]
    return patches[: found - before], numbers


@jit
def _fill(number, keys):
    """Enter numbers 0, 1, ... of distinct keys, uint64 `[N]`, in a table that is empty, int32, a power of two."""
    mask = np.uint64(len(number) - 1)
    for n in range(len(keys)):
        at = keys[n] & mask
        while number[at] >= 0:
            at = (at + np.uint64(1)) & mask
        number[at] = n


def _as_bytes(parts: Sequence[Tensor]) -> Tensor:
    """The bytes of several tensors' rows `[N, ...]` side by side, uint8 `[N, bytes]`."""
    rows = [part.flatten(1) if part.ndim > 1 else part[:, None] for part in parts]
    return torch.cat([row.clone(memory_format=torch.contiguous_format).view(torch.uint8) for row in rows], dim=1)
