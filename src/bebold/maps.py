"""Where an agent has been in one level and what it is paid there: the file `maps.npz` of a run folder."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from bebold.checkpoint import replacing
from bebold.config import MOST_MAPS
from bebold.errors import RunError

FILE = "maps.npz"
"""What the file is called in a run folder."""
AXES = {
    "steps": (np.int64, "K"),
    "visits": (np.int64, "KHW"),
    "bonus": (np.float32, "KHW"),
    "density": (np.float32, "KHW"),
    "walls": (np.bool_, "HW"),
    "room": (np.int8, "HW"),
    "first_entry": (np.int64, "R"),
}
"""Type and axes of each array."""
LARGEST = 2**28
"""Bytes of all arrays together: no maps of ours have a hundredth of it."""
SIDE = 64
"""Most rows, and columns, of a level: no task has half as many, and a page draws a rectangle a cell."""


@dataclass(frozen=True, eq=False)
class Maps:
    """Maps of one level of `H` rows, `W` columns and `R` rooms at `K` moments of a run; arrays index `[y, x]`.

    Raises
    ------
    ValueError : shapes or types are others, or numbers are such as no run can have
    """

    steps: np.ndarray
    """int64 `[K]`: environment steps taken, all environments together; they rise."""
    visits: np.ndarray
    """int64 `[K, H, W]`: how many of these steps led to each cell."""
    bonus: np.ndarray
    """float32 `[K, H, W]`: mean bonus of the policy's own steps to each cell, before β; NaN where none led."""
    density: np.ndarray
    """float32 `[K, H, W]`: share of the policy's own steps that led to each cell; the sum of each map is 1."""
    walls: np.ndarray
    """bool `[H, W]`."""
    room: np.ndarray
    """int8 `[H, W]`: which room, counted along the doors from the one where the agent starts; -1: none."""
    first_entry: np.ndarray
    """int64 `[R]`: environment steps, all environments together, until each room was first entered; -1: never."""

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        for name, (kind, axes) in AXES.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != len(axes):
                raise ValueError(f"{name} is no array of {np.dtype(kind)} with the axes {', '.join(axes)}")
            for axis, size in zip(axes, array.shape, strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise ValueError(f"{name} has {size} entries along {axis}, and others have {sizes[axis]}")
        if not sizes["H"] or not sizes["W"] or not 0 < sizes["R"] < 128:
            raise ValueError("there is no level, or no room in it")
        if max(sizes["H"], sizes["W"]) > SIDE or sizes["K"] > MOST_MAPS:
            raise ValueError(f"it has more than {SIDE} rows or columns, or more than {MOST_MAPS:,} moments")
        if (self.steps < 0).any() or (np.diff(self.steps) <= 0).any():
            raise ValueError("its steps do not rise")
        if not (np.arange(-1, sizes["R"])[:, None] == np.unique(self.room)[None]).any(axis=0).all():
            raise ValueError(f"it has other rooms than the {sizes['R']} of first_entry")
        if (self.visits < 0).any() or (self.first_entry < -1).any():
            raise ValueError("it has negative counts")
        if not ((self.density >= 0) & (self.density <= 1)).all():
            raise ValueError("it has shares that are none")
        if not np.isclose(self.density.sum(axis=(1, 2), dtype=np.float64), 1.0, atol=1e-3).all():
            raise ValueError("its shares do not add up to 1")
        if np.isinf(self.bonus).any():
            raise ValueError("it has an infinite bonus")

    @property
    def num_rooms(self) -> int:
        """`R`."""
        return len(self.first_entry)

    def at(self, steps: int) -> int | None:
        """Index of the first moment at or after so many steps; None if the run did not come that far."""
        index = int(np.searchsorted(self.steps, steps))
        return index if index < len(self.steps) else None

    def entropies(self) -> np.ndarray:
        """Entropy of the visits within each room in bits, float64 `[K, R]`; see `room_entropies`."""
        return np.array([room_entropies(visits, self.room, self.num_rooms) for visits in self.visits]).reshape(
            -1, self.num_rooms
        )

    def save(self, path: Path) -> None:
        """Write the file; it is either whole or as it was.

        Raises
        ------
        RunError : it cannot be written
        """
        with replacing(path) as file:
            np.savez_compressed(file, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def load(cls, path: Path) -> Maps:
        """Read what `save` wrote. Never runs code from the file.

        Raises
        ------
        RunError : there is no such file, or it is damaged or of another kind
        """
        mend = f"`bebold resume {path.parent}` writes it anew, also after the end of the run"
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                    raise ValueError("it is too large")
            with np.load(path, allow_pickle=False) as content:
                if set(content.files) != set(AXES):
                    raise ValueError("it holds other arrays")
                return cls(**{name: content[name] for name in AXES})
        except FileNotFoundError:
            raise RunError(
                f"there are no maps {path}; train with --fixed-level and --maps.interval to have them, or if this run "
                f"has lost its file, {mend}"
            ) from None
        # Whatever the reader stumbles over, the file is not one of ours. Broken archives raise many kinds of errors.
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise RunError(f"{path} holds no maps of a run ({reason}); {mend}") from None


def entry_in_words(steps: int) -> str:
    """One of `first_entry`, in millions."""
    return "never" if steps < 0 else f"{steps / 1e6:.3f}"


def room_entropies(visits: np.ndarray, room: np.ndarray, num_rooms: int) -> np.ndarray:
    """H(ρ'_r) = -Σ_{s in room r} ρ'(s) log₂ ρ'(s) with ρ'(s) = N(s) / Σ_{s in room r} N(s), in bits, float64 `[R]`.

    The entropy of the visits within each room (BeBold, "Visitation Counts Analysis in MiniGrid"); NaN where nobody was.

    Parameters
    ----------
    visits : N, int `[H, W]`
    room : int `[H, W]`: the room of each cell, -1 for none
    """
    inside = room >= 0
    counts, places = visits[inside].astype(np.float64), room[inside]
    totals = np.bincount(places, weights=counts, minlength=num_rooms)
    there = counts > 0
    share = counts[there] / totals[places[there]]
    entropy = np.bincount(places[there], weights=-share * np.log2(share), minlength=num_rooms)
    return np.where(totals > 0, entropy, np.nan)
