"""Visit counts of 64-bit keys, within an episode and over a lifetime, in bounded memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bebold.errors import UsageError
from bebold.hashing import mix
from bebold.jit import jit

UNSTORED = 2**31 - 1
"""What a full lifelong counter says of a key it does not hold: seen so often that its novelty is nil."""


DAMAGED = "a saved counter is damaged, so use an older checkpoint or train anew:"


class EpisodicCounter:
    """N_e: how often each environment has seen a key in its present episode.

    A hash table of `capacity` slots for each of `num_envs` environments (16 bytes a slot), cleared in
    constant time. It holds 3/4 of `capacity` keys; after that a key it does not hold counts as seen before
    (2: no bonus for a first visit), and `saturated` says how often that happened.
    """

    def __init__(self, num_envs: int, capacity: int):
        if num_envs < 1 or capacity < 2 or capacity & (capacity - 1):
            raise UsageError(
                f"an episodic counter of {num_envs} x {capacity} slots is impossible: "
                "give at least 1 environment and a power of two from 2 up"
            )
        self.num_envs, self.capacity = num_envs, capacity
        self.saturated = 0
        # A slot is (key, generation * 2^32 + count); it is free unless its generation is its environment's.
        self._slots = np.zeros((num_envs, capacity, 2), np.uint64)
        self._generations = np.ones(num_envs, np.uint64)
        self._sizes = np.zeros(num_envs, np.int64)
        self._limit = capacity * 3 // 4

    @classmethod
    def for_episodes(cls, num_envs: int, max_steps: int) -> EpisodicCounter:
        """Room for episodes of `max_steps` steps, every observation different, at most half full."""
        return cls(num_envs, 1 << max(2 * (max_steps + 1) - 1, 1).bit_length())

    def visit(self, keys: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Count one visit in each environment; where an episode begins, clear the table first, then insert.

        Parameters
        ----------
        keys : uint64 `[B]`
        starts : bool `[B]`, this observation begins an episode

        Returns
        -------
        int32 `[B]`, visits of the key in this episode, the present one included
        """
        if len(keys) != self.num_envs or len(starts) != self.num_envs:
            raise ValueError(f"{len(keys)} keys and {len(starts)} starts for {self.num_envs} environments")
        counts = np.empty(self.num_envs, np.int32)
        self.saturated += _visit(self._slots, self._generations, self._sizes, self._limit, keys, starts, counts)
        return counts

    def state_dict(self) -> dict[str, Any]:
        """The live entries only, sorted: int64 views of keys, int32 counts and environments, all `[n]`."""
        generations = (self._slots[:, :, 1] >> np.uint64(32)) == self._generations[:, None]
        envs, at = np.nonzero(generations)
        keys = self._slots[envs, at, 0].view(np.int64)
        counts = (self._slots[envs, at, 1] & np.uint64(2**32 - 1)).astype(np.int32)
        order = np.lexsort((keys, envs))
        return {
            "keys": keys[order],
            "counts": counts[order],
            "envs": envs[order].astype(np.int32),
            "num_envs": self.num_envs,
            "saturated": self.saturated,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state of as many environments; arrays or CPU tensors, entries in any order.

        Raises
        ------
        UsageError : it is of another size, or no counter has left it; nothing has changed
        """
        keys, counts, envs, saturated = _checked(state, "keys", "counts", "envs")
        num_envs = state.get("num_envs")
        if num_envs != self.num_envs:
            raise UsageError(
                f"the saved counts of {num_envs} environments do not fit {self.num_envs}: "
                "build the counter as it was saved"
            )
        if not ((envs >= 0) & (envs < self.num_envs)).all() or counts.max(initial=1) > np.iinfo(np.int32).max:
            raise UsageError(f"{DAMAGED} an environment or a count is out of range")
        sizes = np.bincount(envs, minlength=self.num_envs)
        if sizes.max(initial=0) > self._limit:
            raise UsageError(
                f"the saved counts of up to {sizes.max(initial=0)} states an environment do not fit {self._limit}: "
                "build the counter as it was saved"
            )
        order = np.lexsort((keys, envs))
        if ((np.diff(keys[order]) == 0) & (np.diff(envs[order]) == 0)).any():
            raise UsageError(f"{DAMAGED} a key occurs twice")
        self._generations += np.uint64(1)
        self._sizes[:] = sizes
        _restore(self._slots, self._generations, keys, counts, envs)
        self.saturated = saturated


class LifelongCounter:
    """N: how often each key was seen in all of training.

    A hash table that doubles as it fills, up to `capacity` slots of 12 bytes. It holds 3/4 of `capacity`
    keys. Once full it warns, keeps counting the keys it holds, and treats every other key as familiar
    (`UNSTORED`): a bonus that never fades would be worse than none. `saturated` says how many visits went
    uncounted.
    """

    def __init__(self, capacity: int = 2**24):
        if capacity < 2 or capacity & (capacity - 1):
            raise UsageError(f"a lifelong counter of {capacity} slots is impossible: give a power of two from 2 up")
        self.capacity = capacity
        self.size = 0
        self.saturated = 0
        self._allocate(min(capacity, 2**16))

    def _allocate(self, slots: int) -> None:
        self._keys = np.zeros(slots, np.uint64)
        self._counts = np.zeros(slots, np.uint32)  # 0: a free slot

    @property
    def full(self) -> bool:
        """No further key will be stored."""
        return self.size >= self.capacity * 3 // 4

    def count(self, keys: np.ndarray) -> np.ndarray:
        """int64 `[N]`: visits of each of the uint64 keys `[N]` so far; 0 if unseen (`UNSTORED` once full)."""
        return _count(self._keys, self._counts, np.int64(UNSTORED if self.full else 0), keys)

    def add(self, keys: np.ndarray, times: np.ndarray | None = None) -> None:
        """Count `times` (int64 `[N]`, default 1) more visits of each of the uint64 keys `[N]`."""
        times = np.ones(len(keys), np.int64) if times is None else times
        while len(self._keys) < self.capacity and self.size + len(keys) > len(self._keys) * 3 // 4:
            old_keys, old_counts = self._keys, self._counts
            self._allocate(2 * len(old_keys))
            live = old_counts > 0
            _add(
                self._keys,
                self._counts,
                0,
                len(self._keys),
                old_keys[live],
                old_counts[live].astype(np.int64),
            )
        self.size, lost = _add(self._keys, self._counts, self.size, len(self._keys) * 3 // 4, keys, times)
        if lost and not self.saturated:
            warnings.warn(
                f"the lifelong counter is full at {self.size} states, and new ones count as familiar "
                "from now on; raise intrinsic.count_capacity",
                RuntimeWarning,
                stacklevel=2,
            )
        self.saturated += lost

    def state_dict(self) -> dict[str, Any]:
        """The live entries only, sorted: int64 views of the keys `[n]` and int64 counts `[n]`."""
        live = self._counts > 0
        keys, counts = self._keys[live].view(np.int64), self._counts[live].astype(np.int64)
        order = np.argsort(keys)
        return {"keys": keys[order], "counts": counts[order], "saturated": self.saturated}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state; arrays or CPU tensors, entries in any order.

        Raises
        ------
        UsageError : there are too many entries, or no counter has left them; nothing has changed
        """
        keys, counts, saturated = _checked(state, "keys", "counts")
        if len(keys) > self.capacity * 3 // 4:
            raise UsageError(f"{len(keys)} saved counts do not fit; raise intrinsic.count_capacity")
        if counts.max(initial=1) > np.iinfo(np.uint32).max:
            raise UsageError(f"{DAMAGED} a count is out of range")
        fresh = LifelongCounter(self.capacity)
        fresh.add(keys, counts)
        if fresh.size != len(keys):
            raise UsageError(f"{DAMAGED} a key occurs twice")
        self._keys, self._counts, self.size = fresh._keys, fresh._counts, fresh.size
        self.saturated = saturated


def _checked(state: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """The entries of a saved state as arrays `[n]`, keys uint64 and the rest int64, and `saturated`.

    A state may come from a file that anybody has written, and the kernels check nothing.
    """
    arrays = [np.asarray(state.get(name)) for name in names]
    if any(x.ndim != 1 or x.dtype.kind not in "iu" or len(x) != arrays[0].size for x in arrays):
        raise UsageError(f"{DAMAGED} it needs {', '.join(names)}: whole numbers, as many of each")
    keys, (counts, *others) = arrays[0], [x.astype(np.int64) for x in arrays[1:]]
    if keys.itemsize != 8:
        raise UsageError(f"{DAMAGED} keys have 64 bits, not {8 * keys.itemsize}")
    if not (counts > 0).all():
        raise UsageError(f"{DAMAGED} every count is at least 1")
    saturated = state.get("saturated")
    if type(saturated) is not int or saturated < 0:
        raise UsageError(f"{DAMAGED} {saturated!r} visits cannot have gone uncounted")
    return np.ascontiguousarray(keys).view(np.uint64), counts, *others, saturated


@jit
def _visit(slots, generations, sizes, limit, keys, starts, counts):
    mask = np.uint64(slots.shape[1] - 1)
    saturated = 0
    for b in range(slots.shape[0]):
        if starts[b]:
            generations[b] += np.uint64(1)
            sizes[b] = 0
        at = mix(keys[b]) & mask
        while True:
            mark = slots[b, at, 1]
            if mark >> np.uint64(32) != generations[b]:
                if sizes[b] < limit:
                    slots[b, at, 0] = keys[b]
                    slots[b, at, 1] = generations[b] << np.uint64(32) | np.uint64(1)
                    sizes[b] += 1
                    counts[b] = 1
                else:
                    saturated += 1
                    counts[b] = 2
                break
            if slots[b, at, 0] == keys[b]:
                slots[b, at, 1] = mark + np.uint64(1)
                counts[b] = np.int32((mark & np.uint64(0xFFFFFFFF)) + np.uint64(1))
                break
            at = (at + np.uint64(1)) & mask
    return saturated


@jit
def _restore(slots, generations, keys, counts, envs):
    mask = np.uint64(slots.shape[1] - 1)
    for i in range(len(keys)):
        b = envs[i]
        at = mix(keys[i]) & mask
        while slots[b, at, 1] >> np.uint64(32) == generations[b]:
            at = (at + np.uint64(1)) & mask
        slots[b, at, 0] = keys[i]
        slots[b, at, 1] = generations[b] << np.uint64(32) | np.uint64(counts[i])


@jit
def _find(table_keys, table_counts, key):
    """The slot that holds `key`, or the free one where it would go (there always is one)."""
    mask = np.uint64(len(table_keys) - 1)
    at = mix(key) & mask
    while table_counts[at] > 0 and table_keys[at] != key:
        at = (at + np.uint64(1)) & mask
    return at


@jit
def _count(table_keys, table_counts, unseen, keys):
    counts = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        count = table_counts[_find(table_keys, table_counts, keys[i])]
        counts[i] = count if count > 0 else unseen
    return counts


@jit
def _add(table_keys, table_counts, size, limit, keys, times):
    lost = 0
    for i in range(len(keys)):
        at = _find(table_keys, table_counts, keys[i])
        if table_counts[at] == 0:
            if size >= limit:
                lost += times[i]
                continue
            table_keys[at] = keys[i]
            size += 1
        table_counts[at] += np.uint32(times[i])
    return size, lost
