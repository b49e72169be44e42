"""Observations as network inputs, and each distinct observation only once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bebold.hashing import group_rows
from bebold.jit import jit

OBJECTS, COLOURS, STATES = 11, 6, 4
"""Codes of a MiniGrid cell: object type, colour, state. Doors use three states, agents four."""
CELL_WIDTH = OBJECTS + COLOURS + STATES
KINDS = OBJECTS * COLOURS * STATES


class OneHot(nn.Module):
    """MiniGrid cells as one-hot vectors: uint8 `[N, ..., 3]` to `[N, cells * 21]`."""

    table: Tensor

    def __init__(self, dtype: torch.dtype = torch.float32):
        super().__init__()
        objects, colours, states = torch.meshgrid(
            torch.arange(OBJECTS), torch.arange(COLOURS), torch.arange(STATES), indexing="ij"
        )
        parts = (
            nn.functional.one_hot(objects.flatten(), OBJECTS),
            nn.functional.one_hot(colours.flatten(), COLOURS),
            nn.functional.one_hot(states.flatten(), STATES),
        )
        self.register_buffer("table", torch.cat(parts, dim=1).to(dtype), persistent=False)

    def forward(self, cells: Tensor) -> Tensor:
        return nn.functional.embedding(kinds(cells.flatten(1, -2)), self.table).flatten(1)


class OneHotLinear(nn.Module):
    """OneHot(cells) @ weight + bias: uint8 `[N, ..., 3]` to float32 `[N, outputs]`.

    A view is the sum of three rows of the matrix a place. Of many views, few kinds of cells occur: for each
    kind, at each place, the three rows are added up once; a view is then a sum of one such row a place. It takes
    a fifth of the dense product's time.
    """

    row_of_code: Tensor

    def __init__(self, cells: int, outputs: int):
        super().__init__()
        self.cells = cells
        self.onehot = OneHot()
        self.weight = nn.Parameter(torch.zeros(cells * CELL_WIDTH, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        first_rows = CELL_WIDTH * torch.arange(cells)[:, None] + torch.tensor([0, OBJECTS, OBJECTS + COLOURS])
        self.register_buffer("row_of_code", first_rows.flatten().int(), persistent=False)

    def forward(self, cells: Tensor) -> Tensor:
        # What is looked up below is not checked by the kernels, and observations also come from files.
        if cells.dtype != torch.uint8 or cells.shape[1:].numel() != 3 * self.cells:
            raise ValueError(f"{self.cells} cells of 3 bytes are needed, not {cells.dtype} {tuple(cells.shape[1:])}")
        if cells.is_cuda:
            return self.onehot(cells) @ self.weight + self.bias
        if len(cells) < 256 and not torch.is_grad_enabled():  # acting: the table would cost more than it saves
            rows = cells.flatten(1) + self.row_of_code
            return nn.functional.embedding_bag(rows, self.weight, mode="sum") + self.bias
        row, found = map(torch.from_numpy, _rows_of_kinds(cells.flatten(1).numpy(), COLOURS, STATES))
        table = self.onehot.table[found] @ self.weight.unflatten(0, (self.cells, CELL_WIDTH))
        return SumOfRows.apply(row, table.flatten(0, 1)) + self.bias


class CellEmbedding(nn.Module):
    """MiniGrid cells as learnt vectors of object, colour and state: uint8 `[N, W, H, 3]` to float32 `[N, W, H, 10]`."""

    SIZES = (5, 3, 2)
    """Numbers an object, a colour, a state (AMIGo; Campero et al. 2021)."""
    WIDTH = sum(SIZES)

    def __init__(self) -> None:
        super().__init__()
        shapes = zip((OBJECTS, COLOURS, STATES), self.SIZES, strict=True)
        self.objects, self.colours, self.states = (nn.Parameter(torch.randn(*shape)) for shape in shapes)

    def forward(self, cells: Tensor) -> Tensor:
        return nn.functional.embedding(kinds(cells), self.table())

    def table(self) -> Tensor:
        """The vector of every kind of cell, `[KINDS, 10]`: then there is one look-up a cell, not three."""
        return torch.cat(
            (
                self.objects.repeat_interleave(COLOURS * STATES, dim=0),
                self.colours.repeat_interleave(STATES, dim=0).repeat(OBJECTS, 1),
                self.states.repeat(OBJECTS * COLOURS, 1),
            ),
            dim=1,
        )


def kinds(cells: Tensor) -> Tensor:
    """The joint code of each cell, below `KINDS`: uint8 `[..., 3]` to int32 `[...]`."""
    objects, colours, states = cells.unbind(-1)
    return (objects.int() * COLOURS + colours) * STATES + states


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Find the distinct rows of `[N, ...]` by a 64-bit hash; on a CPU in order of first occurrence.

    Returns
    -------
    first : int64 `[U]`, an index of each distinct row
    inverse : int64 `[N]`, which of them each row is
    """
    if rows.device.type == "cpu":
        first, inverse = map(torch.from_numpy, group_rows(rows.numpy()))
        return first, inverse
    return _distinct_by_sorting(rows)


def _distinct_by_sorting(rows: Tensor) -> tuple[Tensor, Tensor]:
    """`distinct` on any device, in no particular order."""
    unique, inverse = torch.unique(_sortable_keys(rows), return_inverse=True)
    first = torch.empty_like(unique)
    # Of several writes to one place any may win: the rows are equal.
    first[inverse] = torch.arange(len(rows), device=rows.device)
    return first, inverse


def _sortable_keys(rows: Tensor) -> Tensor:
    """64-bit keys, int64 `[N]`, of the bytes of rows `[N, ...]`: a random linear map modulo 2⁶⁴, mixed.

    They live within one call and need not be those of `hashing.hash_rows`.
    """
    flat = rows.flatten(1).contiguous().view(torch.uint8)
    generator = torch.Generator().manual_seed(0x5EED)
    info = torch.iinfo(torch.int64)
    weights = torch.randint(info.min, info.max, (flat.shape[1],), generator=generator).to(rows.device)
    keys = (flat.long() * weights).sum(dim=1)
    return keys ^ ((keys >> 29) & (2**35 - 1))


class SumOfRows(torch.autograd.Function):
    """Σ_c table[row[:, c]]: int32 `[N, C]`, float32 `[R, H]` to float32 `[N, H]`."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(row)
        ctx.rows = len(table)
        return nn.functional.embedding_bag(row, table, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        # PyTorch's own gradient of embedding_bag sorts the indices and takes ten times as long.
        (row,) = ctx.saved_tensors
        return None, torch.from_numpy(_scatter(row.numpy(), gradients[0].contiguous().numpy(), ctx.rows))


@jit
def _rows_of_kinds(cells, colours, states):
    """Number the kinds of cells that occur.

    uint8 `[N, 3 C]` to the row of each cell in a table of `C` times `K` rows, int32 `[N, C]`, and to the code
    of each kind, int64 `[K]`.
    """
    places = cells.shape[1] // 3
    row = np.empty((cells.shape[0], places), np.int32)
    number = np.full(2**13, -1, np.int32)
    kinds = np.empty(2**13, np.int64)
    count = 0
    for n in range(cells.shape[0]):
        for c in range(places):
            kind = (cells[n, 3 * c] * colours + cells[n, 3 * c + 1]) * states + cells[n, 3 * c + 2]
            if number[kind] < 0:
                number[kind] = count
                kinds[count] = kind
                count += 1
            row[n, c] = number[kind]
    for n in range(cells.shape[0]):
        for c in range(places):
            row[n, c] += c * count
    return row, kinds[:count]


@jit
def _scatter(row, gradient, rows):
    """The gradient of the table, float32 `[R, H]`, from that of the sums `[N, H]`."""
    total = np.zeros((rows, gradient.shape[1]), np.float32)
    for n in range(row.shape[0]):
        for c in range(row.shape[1]):
            at = row[n, c]
            for h in range(gradient.shape[1]):
                total[at, h] += gradient[n, h]
    return total
