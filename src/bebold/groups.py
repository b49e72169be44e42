"""Runs of one name and task, which tables and figures average."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from bebold.config import TrainConfig
from bebold.errors import UsageError
from bebold.experiments.published import IN_A_ROW, in_paper_order, published_return, steps_to_solve
from bebold.report import Result
from bebold.settings import FREE_IN_MEANS, differences, resolve

Groups = Mapping[tuple[str, str], Sequence[Result]]
"""The runs of each (task, name), by seed."""

OF_THE_BEST = 0.9
"""The best of many runs is lucky, so that fewer than 95 % of it are enough."""

_log = logging.getLogger(__name__)


def group(results: Sequence[Result]) -> dict[tuple[str, str], list[Result]]:
    """The runs of each task, in the paper's order, and name, in the order in which names appear."""
    names = dict.fromkeys(result.name for result in results)
    groups = {
        (task, name): sorted((r for r in results if (r.task, r.name) == (task, name)), key=lambda r: r.config.seed)
        for task in in_paper_order(result.task for result in results)
        for name in names
    }
    return {key: runs for key, runs in groups.items() if runs}


def solved_at(run: Result, beside: Sequence[Result]) -> int | None:
    """Steps at which the run had solved its task; None if it did not or was not evaluated.

    Where the paper gives no return to reach, `OF_THE_BEST` of what the best of the runs `beside` it ends at has to be,
    the mean of its last three evaluations, if that is above 0.
    """
    if published_return(run.task) is not None:
        return run.steps_to_solve
    best = max((float(other.curve_returns[-IN_A_ROW:].mean()) for other in beside if other.evaluated), default=0.0)
    if not run.evaluated or best <= 0:
        return None
    return steps_to_solve(run.curve_steps.tolist(), run.curve_returns.tolist(), OF_THE_BEST * best)


def may_differ(config: TrainConfig) -> set[str]:
    """The settings in which runs that are averaged with this one may differ: not the end to which anything falls."""
    return FREE_IN_MEANS if _falls(config) else FREE_IN_MEANS | {"total_steps"}


def _falls(config: TrainConfig) -> bool:
    """Whether anything falls over the run."""
    decays = [config.learning.learning_rate_decay, config.intrinsic.coefficient_decay]
    decays += [config.ppo.entropy_decay] if config.learner == "ppo" else []
    return "linear" in decays


def mixtures(groups: Groups) -> dict[tuple[str, str], list[str]]:
    """The settings in which runs that are averaged differ although they should not, for each group that has some."""
    found = {
        key: list(dict.fromkeys(setting for other in others for setting, _, _ in _differences(first, other)))
        for key, (first, *others) in groups.items()
    }
    return {key: settings for key, settings in found.items() if settings}


def any_gave_up(groups: Groups) -> bool:
    """Whether a run stopped early, as it earned nothing."""
    return any(run.gave_up for runs in groups.values() for run in runs)


def warn_of_mixtures(groups: Groups) -> None:
    """Log a warning for each run that differs in its settings from the first of its group, or repeats a seed."""
    for (task, name), (first, *others) in groups.items():
        for other in others:
            different = _differences(first, other)
            if different:
                _log.warning(
                    "%s and %s are both %s on %s but differ in %s; give one of them a `label` in its config.yaml, or "
                    "report them apart",
                    first.folder,
                    other.folder,
                    name,
                    task,
                    ", ".join(f"{setting} ({a}, {b})" for setting, a, b in different),
                )
        for run, following in zip([first, *others], others, strict=False):
            if run.config.seed == following.config.seed:
                _log.warning(
                    "%s and %s are both seed %d of %s on %s and count twice; report them apart",
                    run.folder,
                    following.folder,
                    run.config.seed,
                    name,
                    task,
                )


def _differences(first: Result, other: Result) -> list[tuple[str, Any, Any]]:
    found = differences(_resolved(first.config), _resolved(other.config), may_differ(first.config))
    if _falls(first.config) and not _changed_alike(first, other):
        found.append(("total_steps_before", first.totals_before, other.totals_before))
    return found


def _changed_alike(first: Result, other: Result) -> bool:
    """Whether both were asked for the same totals at the same steps; seeds differ by less than an update."""
    update = first.config.num_envs * first.config.unroll
    return len(first.totals_before) == len(other.totals_before) and all(
        before == after and abs(at - there) <= update
        for (at, before), (there, after) in zip(first.totals_before, other.totals_before, strict=True)
    )


def _resolved(config: TrainConfig) -> TrainConfig:
    """Filled in where that is possible: the method may be a stranger's."""
    try:
        return resolve(config)
    except UsageError:
        return config
