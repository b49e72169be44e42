"""Observations as network inputs, and each distinct observation only once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

OBJECTS, COLOURS, STATES = 11, 6, 4
"""Codes of a MiniGrid cell: object type, colour, state. Doors use three states; the fourth keeps agents apart."""
CELL_WIDTH = OBJECTS + COLOURS + STATES


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
        codes = cells.flatten(1, -2).to(torch.int32)
        joint = (codes[..., 0] * COLOURS + codes[..., 1]) * STATES + codes[..., 2]
        return nn.functional.embedding(joint, self.table).flatten(1)


def distinct(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Find the distinct rows of uint8 `[N, ...]` by a 64-bit hash.

    Returns
    -------
    first : int64 `[U]`, an index of each distinct row
    inverse : int64 `[N]`, which of them each row is
    counts : int64 `[U]`, how often each occurs
    """
    keys = hash_rows(rows)
    unique, inverse, counts = torch.unique(keys, return_inverse=True, return_counts=True)
    first = torch.empty_like(unique)
    # Of several writes to one place any may win: the rows are equal.
    first[inverse] = torch.arange(len(keys), device=rows.device)
    return first, inverse, counts


def hash_rows(rows: Tensor) -> Tensor:
    """64-bit keys, int64 `[N]`, of the rows of a uint8 tensor `[N, ...]`: a random linear map modulo 2⁶⁴, mixed."""
    flat = rows.flatten(1)
    generator = torch.Generator().manual_seed(0x5EED)
    info = torch.iinfo(torch.int64)
    weights = torch.randint(info.min, info.max, (flat.shape[1],), generator=generator).to(rows.device)
    keys = (flat.long() * weights).sum(dim=1)
    return keys ^ ((keys >> 29) & (2**35 - 1))
