"""Published numbers of the paper's MiniGrid table, and what counts as having reached them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bebold.config import TrainConfig

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

ENTROPY_STEPS = (200_000, 500_000, 2_000_000, 5_000_000)
"""Environment steps at the columns of the paper's table of room entropies."""

ROOM_ENTROPIES: dict[str, tuple[tuple[float | None, ...], ...]] = {
    "rnd": (
        (3.48, 3.41, 3.51, 3.49),
        (2.87, 3.09, 3.51, 3.35),
        (None, None, None, 3.42),
        (None, None, None, 2.85),
    ),
    "bebold": (
        (3.54, 3.53, 3.56, 3.56),
        (None, 3.23, 3.53, 3.56),
        (None, None, 4.02, 4.01),
        (None, None, 2.74, 2.87),
    ),
}
"""Entropy of the visits within rooms 1 to 4 (rows) at these steps, in bits, on one level of MRN7S8; None for a dash.
The table "Entropy of the visitation counts of each room", beside the corridors'."""

LAST_ROOM_STEPS = 4_600_000
"""By then BeBold has been in all seven rooms (caption of the figure of visitation counts); RND, at 9.8 M, in five."""

SHARE = 0.95
"""A task is solved at this share of BeBold's published return."""

IN_A_ROW = 3
"""Evaluations in a row that must reach it."""

HOPELESS_EVALUATIONS = 4
"""How many of the last evaluations tell whether a run has hope."""

HOPELESS_RETURN = 0.02
"""The mean return that is none: luck finds a reward here and there, as it does for an agent that plays by chance."""


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


def gives_up(config: TrainConfig, steps: int, evaluations: Iterable[tuple[int, float]], asked_at: int = 0) -> bool:
    """Whether a run stops after `steps`, short of its total, as its last evaluations earned nothing.

    `evaluations` are steps and mean return of each. `HOPELESS_EVALUATIONS` of them, after more was asked for at
    `asked_at` steps, decide: their mean is `HOPELESS_RETURN` or less.
    """
    last = [value for step, value in evaluations if step > asked_at][-HOPELESS_EVALUATIONS:]
    hopeless = len(last) == HOPELESS_EVALUATIONS and sum(last) / HOPELESS_EVALUATIONS <= HOPELESS_RETURN
    return hopeless and 0 < config.give_up_at <= steps < config.total_steps
