"""One-hot products without zeros, and distinct rows, against their plain meaning."""

import numpy as np
import pytest
import torch

from bebold.encoding import CELL_WIDTH, OneHot, OneHotLinear, _distinct_by_sorting, distinct
from bebold.hashing import hash_rows


def views(n, limits=(11, 6, 4), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(n, 7, 7, 3, generator=generator) * torch.tensor(limits)).to(torch.uint8)


def test_onehot_marks_object_colour_and_state():
    x = OneHot()(torch.tensor([[[10, 5, 3], [0, 1, 2]]], dtype=torch.uint8))
    assert x.shape == (1, 2 * CELL_WIDTH)
    assert x.nonzero()[:, 1].tolist() == [10, 11 + 5, 17 + 3, 21 + 0, 21 + 11 + 1, 21 + 17 + 2]


@pytest.mark.parametrize("n", [0, 1, 300])
@pytest.mark.parametrize("limits", [(11, 6, 4), (3, 1, 1)])
def test_onehot_linear_equals_the_dense_product(n, limits):
    layer = OneHotLinear(49, 24)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    x = views(n, limits)
    out = layer(x)
    upstream = torch.randn(n, 24)
    gradients = torch.autograd.grad(out, (layer.weight, layer.bias), upstream)
    dense = OneHot()(x) @ layer.weight + layer.bias
    expected = torch.autograd.grad(dense, (layer.weight, layer.bias), upstream)
    torch.testing.assert_close(out, dense, rtol=1e-4, atol=1e-4)
    for a, b in zip(gradients, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [10, 300])
def test_onehot_linear_refuses_what_is_not_a_view(n):
    layer = OneHotLinear(49, 24)
    for cells in (views(n).long() * 10**6, views(n)[:, :6], views(n).float()):
        with pytest.raises(ValueError, match="49 cells of 3 bytes"):
            layer(cells)
    with pytest.raises(IndexError):  # codes that no cell has
        layer(torch.full((n, 7, 7, 3), 255, dtype=torch.uint8))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int64])
def test_distinct_groups_equal_rows(dtype):
    kinds = views(40).to(dtype)
    index = torch.randint(40, (500,))
    rows = kinds[index]
    for find in (distinct, _distinct_by_sorting):  # on a CPU, and on any other device
        first, inverse = find(rows)
        assert len(first) == len(index.unique())
        assert torch.equal(rows[first][inverse], rows)
    # In order of first occurrence.
    first, inverse = distinct(rows)
    assert (first.diff() > 0).all()
    assert torch.equal(first[inverse] <= torch.arange(500), torch.ones(500, dtype=torch.bool))


def test_distinct_of_nothing_is_nothing():
    assert [len(x) for x in distinct(torch.empty(0, 7, 7, 3, dtype=torch.uint8))] == [0, 0]


def test_hashes_spread_over_all_bits():
    """Rows that differ in one byte by one have keys that differ in about half of their bits."""
    rows = np.zeros((147, 147), np.uint8)
    np.fill_diagonal(rows, 1)
    keys = hash_rows(rows)
    assert len(np.unique(keys)) == 147
    flips = np.bitwise_count(keys[:, None] ^ keys[None, :])[np.triu_indices(147, 1)]
    assert 31 < flips.mean() < 33
    assert flips.min() > 8


def test_hashes_are_the_same_in_every_version():
    """Counts saved under these keys must mean the same when they are read again; here is their definition."""

    def mix(x):
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    def key(row):
        return mix(sum(byte * mix((i + 1) * 0x9E3779B97F4A7C15 % 2**64) for i, byte in enumerate(row)) % 2**64)

    rows = np.random.default_rng(0).integers(0, 256, (20, 147), dtype=np.uint8)
    assert hash_rows(rows).tolist() == [key(row) for row in rows.tolist()]
