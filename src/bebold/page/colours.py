"""Which number has which colour in a heatmap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from bebold.maps import Maps

COLOURS = 256
"""As many as viridis has."""


@dataclass(frozen=True)
class Scale:
    """Which value has which colour at one checkpoint."""

    low: float
    high: float
    logarithmic: bool

    def colour(self, values: np.ndarray) -> np.ndarray:
        """Index of the colour, int `[N]`; -1 where there is nothing to show, or 0. `page.js` does the same."""
        low, high = self.low, self.high
        if self.logarithmic:
            shown = values > 0
            low, high, values = np.log(low), np.log(high), np.log(np.where(shown, values, 1.0))
        else:
            shown = np.isfinite(values) & (values != 0)
        share = (np.where(shown, values, low) - low) / (high - low)
        return np.where(shown, np.clip(share * COLOURS, 0, COLOURS - 1).astype(int), -1)

    def middle(self) -> float:
        """The value of the colour in the middle."""
        return float(np.sqrt(self.low * self.high)) if self.logarithmic else (self.low + self.high) / 2


def scales(methods: Sequence[Maps]) -> list[dict[str, list[Scale]]]:
    """For each method, kind and checkpoint. Only of the bonus has each map its own."""

    def shared(arrays: Sequence[np.ndarray]) -> Scale:
        positive = np.concatenate([values[values > 0] for values in arrays])
        low, high = (float(positive.min()), float(positive.max())) if len(positive) else (1.0, 1.0)
        return Scale(low, high if high > low else 10 * low, logarithmic=True)

    def own(values: np.ndarray) -> Scale:
        known = values[np.isfinite(values)]
        low, high = min(0.0, float(known.min(initial=0.0))), float(known.max(initial=0.0))
        return Scale(low, high if high > low else low + 1.0, logarithmic=False)

    visits, density = shared([maps.visits for maps in methods]), shared([maps.density for maps in methods])
    return [
        {
            "visits": [visits] * len(maps.steps),
            "bonus": [own(values) for values in maps.bonus],
            "density": [density] * len(maps.steps),
        }
        for maps in methods
    ]


@cache
def palette() -> tuple[str, ...]:
    """Viridis, whose order can be seen in grey and by the colour-blind, as `COLOURS` hexadecimal numbers."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return tuple(to_hex(colour) for colour in colormaps["viridis"](np.arange(COLOURS)))
