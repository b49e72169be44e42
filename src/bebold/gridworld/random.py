"""NumPy's PCG64 generator and the integer draws of `numpy.random.Generator`, number for number.

A generator is a row of six uint64: state (high, low), increment (high, low), and the spare upper half of the
last 64-bit output (is there one, its value), which NumPy keeps for the next 32-bit draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bebold.jit import jit

GENERATOR_WORDS = 6
STATE_HIGH, STATE_LOW, INCREMENT_HIGH, INCREMENT_LOW, HAS_SPARE, SPARE = range(GENERATOR_WORDS)
PCG_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645

_WORD = (1 << 64) - 1


def seeded_generator(seed: int | np.random.SeedSequence | None) -> np.ndarray:
    """The state of `np.random.default_rng(seed)`, uint64 [6]; `None` takes fresh entropy."""
    return pack_generator(np.random.PCG64(seed))


def pack_generator(bit_generator: np.random.BitGenerator) -> np.ndarray:
    """A NumPy PCG64's state as uint64 [6]."""
    full: Any = bit_generator.state
    state, increment = full["state"]["state"], full["state"]["inc"]
    words = [
        state >> 64,
        state & _WORD,
        increment >> 64,
        increment & _WORD,
        full["has_uint32"],
        full["uinteger"],
    ]
    return np.array(words, dtype=np.uint64)


@intrinsic
def _multiply_add(typingctx, high, low, increment_high, increment_low):
    """(high:low) * PCG_MULTIPLIER + (increment_high:increment_low) modulo 2**128, as two uint64.

    An intrinsic because numba has no 128-bit integers, which the processor multiplies in a few instructions.
    """
    word = types.uint64
    signature = types.UniTuple(word, 2)(word, word, word, word)

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        sixty_four = ir.Constant(wide, 64)

        def join(upper, lower):
            return builder.or_(builder.shl(builder.zext(upper, wide), sixty_four), builder.zext(lower, wide))

        product = builder.mul(join(args[0], args[1]), ir.Constant(wide, PCG_MULTIPLIER))
        total = builder.add(product, join(args[2], args[3]))
        upper = builder.trunc(builder.lshr(total, sixty_four), ir.IntType(64))
        lower = builder.trunc(total, ir.IntType(64))
        return context.make_tuple(builder, signature.return_type, [upper, lower])

    return signature, codegen


@jit
def next_uint64(rng):
    """The next 64 random bits (PCG XSL-RR 128/64)."""
    high, low = _multiply_add(rng[STATE_HIGH], rng[STATE_LOW], rng[INCREMENT_HIGH], rng[INCREMENT_LOW])
    rng[STATE_HIGH] = high
    rng[STATE_LOW] = low
    folded = high ^ low
    turn = high >> np.uint64(58)
    return (folded >> turn) | (folded << ((np.uint64(64) - turn) & np.uint64(63)))


@jit
def next_uint32(rng):
    """The next 32 random bits, as uint64: the lower half of a 64-bit output first, then its upper half."""
    if rng[HAS_SPARE] != np.uint64(0):
        rng[HAS_SPARE] = np.uint64(0)
        return rng[SPARE]
    bits = next_uint64(rng)
    rng[HAS_SPARE] = np.uint64(1)
    rng[SPARE] = bits >> np.uint64(32)
    return bits & np.uint64(0xFFFFFFFF)


@jit
def integers(rng, low, high):
    """`Generator.integers(low, high)` for one number (int64): Lemire's method on 32 bits.

    A range of one number draws nothing.
    """
    width = np.uint64(high - low)
    if width <= np.uint64(1):
        return np.int64(low)
    product = next_uint32(rng) * width
    remainder = product & np.uint64(0xFFFFFFFF)
    if remainder < width:
        threshold = (np.uint64(1 << 32) - width) % width
        while remainder < threshold:
            product = next_uint32(rng) * width
            remainder = product & np.uint64(0xFFFFFFFF)
    return np.int64(low) + np.int64(product >> np.uint64(32))


@jit
def shuffle(rng, values):
    """`Generator.shuffle` of a Python list, in place: its indices come from masked rejection, not Lemire."""
    for last in range(len(values) - 1, 0, -1):
        mask = np.uint64(last)
        mask |= mask >> np.uint64(1)
        mask |= mask >> np.uint64(2)
        mask |= mask >> np.uint64(4)
        mask |= mask >> np.uint64(8)
        mask |= mask >> np.uint64(16)
        other = next_uint32(rng) & mask
        while other > np.uint64(last):
            other = next_uint32(rng) & mask
        swapped = np.int64(other)
        values[last], values[swapped] = values[swapped], values[last]
