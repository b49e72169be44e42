"""The generator against NumPy's, draw for draw."""

from __future__ import annotations

import numpy as np
import pytest

from bebold.gridworld.random import (
    integers,
    next_uint64,
    pack_generator,
    seeded_generator,
    shuffle,
)


def assert_same_state(rng: np.ndarray, expected: np.random.Generator) -> None:
    np.testing.assert_array_equal(rng, pack_generator(expected.bit_generator))


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**40])
def test_draws_are_numpys(seed: int) -> None:
    rng, expected = seeded_generator(seed), np.random.default_rng(seed)
    kinds = np.random.default_rng(99)
    for _ in range(2000):
        kind = kinds.integers(5)
        if kind == 0:
            # Widths near 2**32 often reach the rejection branch of Lemire's method.
            low, width = kinds.integers(-50, 50), kinds.choice([1, 2, 3, 6, 25, 2**31 + 7, 2**32 - 5])
            assert integers(rng, low, low + width) == expected.integers(low, low + width)
        elif kind == 1:
            low, width = kinds.integers(0, 9), kinds.integers(1, 9)
            assert integers(rng, low, low + width) == expected.choice(range(low, low + width))
        elif kind == 2:
            ours = np.arange(kinds.integers(0, 40))
            theirs = ours.tolist()
            shuffle(rng, ours)
            expected.shuffle(theirs)
            assert ours.tolist() == theirs
        elif kind == 3:
            # 64-bit draws leave the spare half alone.
            assert int(next_uint64(rng)) == int(expected.bit_generator.random_raw())
        else:
            assert integers(rng, 0, 2) == expected.integers(0, 2)
        assert_same_state(rng, expected)


def test_a_range_of_one_number_draws_nothing() -> None:
    rng = seeded_generator(3)
    before = rng.copy()
    assert integers(rng, 7, 8) == 7
    np.testing.assert_array_equal(rng, before)


def test_a_state_with_a_spare_half_is_what_numpy_goes_on_from() -> None:
    rng, expected = seeded_generator(5), np.random.default_rng(0)
    integers(rng, 0, 10)  # leaves a spare half
    assert rng[4] == 1
    high, low, increment_high, increment_low, has_spare, spare = rng.tolist()
    expected.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": increment_high << 64 | increment_low},
        "has_uint32": has_spare,
        "uinteger": spare,
    }
    assert_same_state(rng, expected)
    for _ in range(10):
        assert integers(rng, 0, 1000) == expected.integers(0, 1000)
