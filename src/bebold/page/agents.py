"""Trained agents at play, as GIFs within the page."""

from __future__ import annotations

import base64
import logging
import math
from collections.abc import Sequence

import numpy as np

from bebold.errors import RunError, UsageError
from bebold.experiments.published import in_paper_order
from bebold.page.elements import Html, element, join, prose
from bebold.report import Result
from bebold.runs import read_metrics

LARGEST = 224
"""Pixels of the longer side of a GIF, about."""
FRAMES = 300
"""Shown of an episode, at most."""
RECENT = 10
"""Updates whose mean return ranks agents of one level."""
BYTES = 300_000
"""Of a GIF, at most: a page with one for each of the twelve tasks can still be sent by mail."""

WORDS = (
    "The best agent of each task on the first of the levels that `bebold eval` plays, in Farama's environment with "
    "sampled actions. What it sees is lit. Agents that were trained on one level know no other: the best of each level "
    "is shown on that."
)

_log = logging.getLogger(__name__)


def agents(results: Sequence[Result]) -> Html | None:
    """Of each task the best agent whose weights are at hand; None if there is none.

    Agents that were trained on one level are apart from the others: what they do on another says nothing.
    """
    figures = []
    for task in in_paper_order(result.task for result in results):
        of_task = [r for r in results if r.task == task and (r.folder / "weights.safetensors").exists()]
        for level in dict.fromkeys(r.config.fixed_level for r in of_task):
            alike = sorted((r for r in of_task if r.config.fixed_level == level), key=_worst_last)
            figure = next((figure for figure in map(_figure, alike) if figure is not None), None)
            figures += [figure] if figure is not None else []
    return join(prose(WORDS), element("div", *figures, class_="agents")) if figures else None


def _worst_last(result: Result) -> float:
    """What to sort by: an agent of one level is judged by its last training episodes, which were on that level."""
    value = result.last_return
    if result.config.fixed_level is not None:
        returns = read_metrics(result.folder).get("charts/episodic_return", np.zeros(0))
        recent = returns[np.isfinite(returns)][-RECENT:]
        value = float(recent.mean()) if len(recent) else math.nan
    return -value if math.isfinite(value) else math.inf


def _figure(result: Result) -> Html | None:
    """The agent on its own level or the first that `bebold eval` plays; None if the weights cannot be read."""
    from bebold.evaluation import TEST_SEED, load_policy
    from bebold.video import record_episode

    try:
        policy, config = load_policy(result.folder)
    except (RunError, UsageError) as error:
        _log.warning("%s: the page goes without this agent", error)
        return None
    seed = TEST_SEED if config.fixed_level is None else config.fixed_level
    frames, earned = record_episode(policy, config.task, seed=seed, largest=LARGEST, max_frames=FRAMES)
    gif, shown = shortened(frames)
    if earned is not None and shown == len(frames):
        outcome = f"return {earned:.2f} after {shown - 1} steps"
    else:
        outcome = f"the first {shown - 1} steps"
    level = "" if config.fixed_level is None else f", on level {config.fixed_level}"
    about = f"{result.task}: {result.name}, seed {result.config.seed}{level}, {outcome}"
    source = f"data:image/gif;base64,{base64.b64encode(gif).decode()}"
    return element(
        "figure",
        element(
            "img", src=source, alt=f"An agent at play. {about}", width=frames[0].shape[1], height=frames[0].shape[0]
        ),
        element("figcaption", element("b", result.task), about.removeprefix(result.task)),
    )


def shortened(frames: Sequence[np.ndarray], limit: int = BYTES) -> tuple[bytes, int]:
    """A GIF of at most `limit` bytes, and how many of the frames it shows; the last of them is held."""
    from bebold.video import as_gif, held

    shown = len(frames)
    while True:
        gif = as_gif(held(frames[:shown]))
        if len(gif) <= limit or shown == 1:
            return gif, shown
        shown = max(1, shown * limit // len(gif) * 9 // 10)
