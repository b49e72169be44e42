"""What counts as the same state: key functions from observations to 64 bits.

A key function takes the observations and infos of `B` environments, as dicts of NumPy arrays `[B, ...]`, and
returns uint64 `[B]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bebold.errors import UsageError
from bebold.hashing import hash_rows
from bebold.views import touched

Arrays = Mapping[str, np.ndarray]
KeyFunction = Callable[[Arrays, Arrays], np.ndarray]


def observation(obs: Arrays, info: Arrays) -> np.ndarray:
    """The observation itself, `image` or else `vector`: N_e(o) in BeBold's Eq. 3, on "the raw inputs"."""
    if "image" in obs:
        return hash_rows(obs["image"])
    return hash_rows(_numbers(_get(obs, "vector", "observation")))


def full_state(obs: Arrays, info: Arrays) -> np.ndarray:
    """The environment's own key of its full state, `info["state_key"] [B]`: N_e(s) of the authors' code."""
    return np.ascontiguousarray(_get(info, "state_key", "full_state")).view(np.uint64)


def position(obs: Arrays, info: Arrays) -> np.ndarray:
    """Where the agent is, `info["agent_pos"] [B, 2]`, whatever else has changed."""
    return hash_rows(_get(info, "agent_pos", "position").astype(np.int64))


def pose(obs: Arrays, info: Arrays) -> np.ndarray:
    """The agent itself, wherever things lie: `info["agent_pos"] [B, 2]`, `obs["direction"] [B]` and what it carries."""
    held = touched(_get(obs, "image", "pose"))[:, 1]
    facing = _get(obs, "direction", "pose")[:, None]
    rows = np.concatenate([_get(info, "agent_pos", "pose"), facing, held], axis=1)
    return hash_rows(rows.astype(np.int64))


def contact(obs: Arrays, info: Arrays) -> np.ndarray:
    """What the agent carries and what it faces, wherever it is: two cells of a MiniGrid view (`touched`)."""
    return hash_rows(np.ascontiguousarray(touched(_get(obs, "image", "contact"))))


def discretised(obs: Arrays, info: Arrays, bin: float = 0.1) -> np.ndarray:
    """The cell of a continuous observation in a grid: ⌊vector / bin⌋ of `obs["vector"] [B, D]`."""
    vector = _numbers(_get(obs, "vector", "discretised"))
    return hash_rows(np.floor(vector / bin).astype(np.int64))


KEYS: dict[str, Callable[..., np.ndarray]] = {
    "observation": observation,
    "full_state": full_state,
    "position": position,
    "pose": pose,
    "contact": contact,
    "discretised": discretised,
}
"""The choices of `IntrinsicConfig.key`."""


def make_key(name: str, bin: float = 0.1) -> KeyFunction:
    """The key function called `name`; `bin` is the width of `discretised` and else without effect."""
    if name not in KEYS:
        raise UsageError(f"there is no key '{name}'; choose one of {', '.join(KEYS)}")
    if name != "discretised":
        return KEYS[name]
    if not 0 < bin < float("inf"):
        raise UsageError(f"the bin width of the discretised key is {bin:g}; choose a positive number")
    return partial(discretised, bin=bin)


def _get(arrays: Arrays, name: str, key: str) -> Any:
    if name in arrays:
        return np.asarray(arrays[name])
    others = [other for other in KEYS if other != key]
    raise UsageError(
        f"the key '{key}' needs '{name}', which this environment does not give (it gives "
        f"{', '.join(sorted(arrays)) or 'nothing'}); choose another key: {', '.join(others)}"
    )


def _numbers(vector: np.ndarray) -> np.ndarray:
    """Equal numbers as equal bytes: 0.0 for -0.0."""
    return vector + vector.dtype.type(0)
