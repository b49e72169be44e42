"""What the loops of recurrences are made of: bfloat16 read and written as bits, and functions that vectorise."""

from __future__ import annotations

import numpy as np
import torch
from numba import types
from numba.extending import overload
from torch import Tensor

from bebold.jit import jit

FAST = {"contract", "reassoc", "arcp", "afn", "nsz"}
"""What the compiler may assume; not that there are no infinities and NaN, which must be found."""


def memory_of(x: Tensor) -> np.ndarray:
    """The tensor's memory, of bfloat16 by its bits."""
    x = x.detach()
    return x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy()


def get(array, i):
    """`array[i]` as float32; of uint16, which are the bits of a bfloat16."""
    raise NotImplementedError("for kernels alone")


def put(array, i, x):
    """`array[i] = x`, rounded to the nearest bfloat16 if the array is of such bits."""
    raise NotImplementedError("for kernels alone")


@overload(get, inline="always")
def _get_of(array, i):
    if array.dtype == types.uint16:
        return lambda array, i: np.uint32(np.uint32(array[i]) << np.uint32(16)).view(np.float32)
    return lambda array, i: array[i]


@overload(put, inline="always")
def _put_of(array, i, x):
    def round_off(array, i, x):
        bits = np.float32(x).view(np.uint32)
        odd = (bits >> np.uint32(16)) & np.uint32(1)
        array[i] = np.uint16((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))

    def keep_all(array, i, x):
        array[i] = x

    return round_off if array.dtype == types.uint16 else keep_all


@jit(inline="always", fastmath=FAST)
def sigmoid(x):
    """1 / (1 + e⁻ˣ) to float32 precision, of operations that vectorise: 2ᵏ from bits, 2ᶠ by its series."""
    x = min(max(-x, np.float32(-60.0)), np.float32(60.0)) * np.float32(1.4426950408889634)
    k = np.floor(x + np.float32(0.5))
    f = (x - k) * np.float32(0.6931471805599453)
    series = np.float32(1 / 5040)
    series = series * f + np.float32(1 / 720)
    series = series * f + np.float32(1 / 120)
    series = series * f + np.float32(1 / 24)
    series = series * f + np.float32(1 / 6)
    series = series * f + np.float32(0.5)
    series = series * f + np.float32(1.0)
    series = series * f + np.float32(1.0)
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return np.float32(1.0) / (np.float32(1.0) + series * power)


@jit(inline="always", fastmath=FAST)
def tanh(x):
    """2 σ(2x) - 1."""
    two = np.float32(2.0)
    return two * sigmoid(two * x) - np.float32(1.0)
