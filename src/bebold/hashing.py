"""64-bit keys of raw bytes, the same in every process and version. NumPy and numba only."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bebold.jit import jit


@jit
def mix(x: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every bit depends on every bit (the finaliser of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hash_rows(rows: np.ndarray) -> np.ndarray:
    """uint64 `[N]`: a hash of the bytes of each row of `rows [N, ...]`, of any dtype.

    Two different rows get the same key with a probability of about 2⁻⁶⁴.
    """
    as_bytes = _bytes(rows)
    return _linear_hash(as_bytes, _weights(as_bytes.shape[1]))


def group_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group equal rows of `rows [N, ...]` by their hash, in order of first occurrence.

    Returns
    -------
    first : int64 `[U]`, the first index of each distinct row
    inverse : int64 `[N]`, which of them each row is
    """
    keys = hash_rows(rows)
    first, inverse = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    groups = _group(keys, first, inverse)
    return first[:groups], inverse


def _bytes(rows: np.ndarray) -> np.ndarray:
    """`[N, ...]` as uint8 `[N, n]`."""
    width = rows.dtype.itemsize * int(np.prod(rows.shape[1:]))
    return np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), width)


@lru_cache(maxsize=8)
def _weights(n: int) -> np.ndarray:
    """uint64 `[n]`: the splitmix64 sequence."""
    return _splitmix(n)


@jit
def _splitmix(n):
    words = np.empty(n, np.uint64)
    for i in range(n):
        words[i] = mix(np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15))
    return words


@jit
def _linear_hash(rows, weights):
    """Σᵢ weightᵢ · byteᵢ modulo 2⁶⁴, mixed."""
    keys = np.empty(rows.shape[0], np.uint64)
    for n in range(rows.shape[0]):
        total = np.uint64(0)
        for i in range(rows.shape[1]):
            total += np.uint64(rows[n, i]) * weights[i]
        keys[n] = mix(total)
    return keys


@jit
def _group(keys, first, inverse):
    slots = 2
    while slots < 2 * len(keys):
        slots *= 2
    mask = np.uint64(slots - 1)
    table = np.full(slots, -1, np.int64)
    groups = 0
    for n in range(len(keys)):
        at = keys[n] & mask
        while table[at] >= 0 and keys[first[table[at]]] != keys[n]:
            at = (at + np.uint64(1)) & mask
        if table[at] < 0:
            table[at] = groups
            first[groups] = n
            groups += 1
        inverse[n] = table[at]
    return groups
