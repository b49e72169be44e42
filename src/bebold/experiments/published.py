"""Published numbers of the paper's MiniGrid table, and what counts as having reached them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

TASKS = (
    "MRN6", "MRN7S8", "MRN12S10", "KCS3R3", "KCS4R3", "KCS5R3", "KCS6R3",
    "OM2Dlh", "OM2Dlhb", "OM1Q", "OM2Q", "OMFull",
)  # fmt: skip
"""Short names, in the order of the paper's Table 2."""

RETURNS: dict[str, tuple[float, ...]] = {
    "bebold": (0.64, 0.67, 0.65, 0.92, 0.93, 0.94, 0.94, 0.96, 0.89, 0.88, 0.93, 0.96),
    "ride": (0.65, 0.67, 0.65, 0.91, 0.93, 0, 0, 0.95, 0, 0, 0, 0),
    "rnd": (0, 0, 0, 0.91, 0, 0, 0, 0.95, 0, 0, 0, 0),
    "none": (0, 0, 0, 0.91, 0, 0, 0, 0, 0, 0, 0, 0),
    "amigo": (0, 0, 0, 0.89, 0, 0, 0, 0, 0, 0, 0, 0),
    "icm": (0, 0, 0, 0.45, 0, 0, 0, 0, 0, 0, 0, 0),
}
"""Final mean return of each method (`none` is IMPALA) after 120 M steps, 4 seeds with 32 levels each."""

SHARE = 0.95
"""A task is solved at this share of BeBold's published return."""

IN_A_ROW = 3
"""Evaluations in a row that must reach it."""


def in_paper_order(tasks: Iterable[str]) -> list[str]:
    """Each task once: first those of the paper's table, in its order, then the others as they come."""
    found = dict.fromkeys(tasks)
    return [task for task in TASKS if task in found] + [task for task in found if task not in TASKS]


def published_return(task: str, method: str = "bebold") -> float | None:
    """The paper's return of `method` on the task with this short name; None where it gives none."""
    if method not in RETURNS or task not in TASKS:
        return None
    return RETURNS[method][TASKS.index(task)]


def solved_threshold(task: str) -> float | None:
    """The return at which the task with this short name counts as solved; None outside the table."""
    published = published_return(task)
    return None if published is None else SHARE * published


def steps_to_solve(steps: Sequence[int], returns: Sequence[float], threshold: float | None) -> int | None:
    """The steps at the first of three evaluations in a row at or above `threshold`; None if there are none.

    `steps` and `returns` are of the evaluations, in order.
    """
    run = 0
    for index, value in enumerate(returns):
        run = run + 1 if threshold is not None and value >= threshold else 0
        if run == IN_A_ROW:
            return int(steps[index - IN_A_ROW + 1])
    return None
