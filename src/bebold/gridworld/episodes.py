"""What `info` says of the episodes that a step has ended."""

from __future__ import annotations

from typing import Any

import numpy as np


def ended_episodes(ended: np.ndarray, returns: np.ndarray, lengths: np.ndarray) -> dict[str, Any]:
    """`episode` with `r` float64 [B] and `l` int64 [B], 0 elsewhere, and the mask `_episode` bool [B]; else nothing.

    Parameters
    ----------
    ended : bool [B]
    returns : float64 [B], of the episodes so far
    lengths : int64 [B], their steps
    """
    if not ended.any():
        return {}
    episode = {"r": np.where(ended, returns, 0.0), "l": np.where(ended, lengths, 0)}
    return {"episode": episode, "_episode": ended.copy()}
