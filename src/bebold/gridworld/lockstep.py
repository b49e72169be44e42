"""Walk this engine and Farama's MiniGrid side by side and count every difference."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bebold.gridworld.cells import DOOR, EMPTY_CELL, OPAQUE_BIT, WALL_CELL
from bebold.gridworld.explorer import Explorer
from bebold.gridworld.random import pack_generator
from bebold.gridworld.tasks import Task, find_task, make_farama
from bebold.gridworld.vector import MiniGridVectorEnv

if TYPE_CHECKING:
    from minigrid.core.world_object import WorldObj
    from minigrid.minigrid_env import MiniGridEnv

# A view takes Farama ten times as long as all the rest of a step, and a full grid a hundred times. Both follow
# from the cells, the agent and its load alone, which are compared at every step.
VIEW_EVERY = 8
FULL_GRID_EVERY = 256

EVENING = 50
"""Of how many steps before the limit an episode that starts late has at most."""


@dataclasses.dataclass
class Report:
    """What a walk saw. `differences` counts unequal values by field and should be empty."""

    steps: int = 0
    levels: int = 0
    views: int = 0
    successes: int = 0
    failures: int = 0
    timeouts: int = 0
    pickups: int = 0
    opened: int = 0
    differences: Counter[str] = dataclasses.field(default_factory=Counter)

    def __iadd__(self, other: Report) -> Report:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


def walk(task: str | Task, seeds: Sequence[int], steps: int, **options: Any) -> Report:
    """Walk once, with one environment per seed; see `Pair.walk`."""
    return Pair(task, len(seeds)).walk(seeds, steps, **options)


class Pair:
    """`num_envs` environments of one task, here and in Farama's."""

    def __init__(self, task: str | Task, num_envs: int) -> None:
        self.task = find_task(task)
        self.ours = MiniGridVectorEnv(self.task, num_envs, full_grid=True)
        self.theirs = [Twin(self.task) for _ in range(num_envs)]

    def walk(
        self,
        seeds: Sequence[int],
        steps: int,
        *,
        policy_seed: int = 0,
        knowing: float = 0.5,
        late: float = 0.25,
        again: float = 0.0,
        view_every: int = VIEW_EVERY,
    ) -> Report:
        """Play `steps` steps in every environment, and compare.

        At each step: reward, both ends, all cells with box contents, the agent, its load and the time. At every
        `view_every`-th of an environment, at the first and last of each episode, and whenever the grid or the
        load has changed: the view and the generator (a number drawn too many or too few is never made up for).

        A share `knowing` of the environments is played by one who knows how to solve the level. A share `late` of
        the episodes begins shortly before the limit, in both, so that time also runs out where episodes are long.
        A share `again` of those about to run out has its clock set back instead, in both: a longer stay in levels
        that are slow to draw.
        """
        ours, theirs = self.ours, self.theirs
        rng = np.random.default_rng([policy_seed, *seeds])
        explorer = Explorer(len(theirs), rng, knowing)
        report = Report(levels=len(theirs))
        observation, _ = ours.reset(seed=list(seeds))
        for twin, seed in zip(theirs, seeds, strict=True):
            twin.reset(seed)
        everybody = np.ones(len(theirs), dtype=np.bool_)
        now = self._compare(report, observation, everybody, everybody)
        self._set_clocks(now, rng, late, everybody)
        ended = ~everybody
        for time in range(steps):
            actions, before = explorer.act(ours), now
            observation, *outcome, _ = ours.step(actions)
            played = zip(theirs, actions.tolist(), ended.tolist(), strict=True)
            expected = zip(*[twin.reset() if end else twin.step(action) for twin, action, end in played], strict=True)
            for name, mine, faramas in zip(("reward", "terminated", "truncated"), outcome, expected, strict=True):
                report.differences[name] += int((mine != np.array(faramas)).sum())
            reward, terminated, truncated = outcome
            started, ended = ended, terminated | truncated
            clock = time + np.arange(len(theirs))
            seen = started | ended | (clock % view_every == 0)
            if before["obstacles"].size == 0:  # else the grid changes at every step
                seen |= (before["cells"] != ours.get_state()["cells"]).any(axis=(1, 2))
            now = self._compare(report, observation, seen, clock % FULL_GRID_EVERY == 0)
            _count(report, started, reward, terminated, truncated, before, now)
            explorer.forget(ended)
            self._set_clocks(now, rng, late, started)
            about_to_end = ~ended & (now["elapsed"] == self.task.max_steps - 1)
            if again and (set_back := about_to_end & (rng.random(len(theirs)) < again)).any():
                self._set_clocks_to(now, np.where(set_back, 0, now["elapsed"]))
        report.differences = +report.differences
        return report

    def _set_clocks(self, now: dict[str, np.ndarray], rng: np.random.Generator, late: float, started: Any) -> None:
        """Move some episodes that have just begun on to the evening."""
        chosen = started & (rng.random(len(started)) < late)
        if chosen.any():
            evening = self.task.max_steps - rng.integers(1, min(EVENING, self.task.max_steps), size=len(started))
            self._set_clocks_to(now, np.where(chosen, evening, now["elapsed"]))

    def _set_clocks_to(self, now: dict[str, np.ndarray], times: np.ndarray) -> None:
        now["elapsed"] = times
        self.ours.set_state(now)
        for twin, time in zip(self.theirs, times.tolist(), strict=True):
            twin.env.step_count = time

    def _compare(self, report: Report, observation: Any, seen: np.ndarray, seen_whole: np.ndarray) -> Any:
        """Compare all states, and what is shown in the environments `seen` and `seen_whole`; returns our state."""
        state = self.ours.get_state()
        twins = self.theirs
        expected = {
            "cells": np.array([twin.cells() for twin in twins]),
            "agent": np.array([[*twin.env.agent_pos, twin.env.agent_dir] for twin in twins]),
            "carried": np.array([farama_cell(twin.env.carrying) if twin.env.carrying else 0 for twin in twins]),
            "elapsed": np.array([twin.env.step_count for twin in twins]),
        }
        for name, value in expected.items():
            report.differences[name] += int((state[name] != value).sum())
        report.differences["direction"] += int((observation["direction"] != expected["agent"][:, 2]).sum())
        for i in np.flatnonzero(seen):
            report.views += 1
            view = twins[i].view()
            report.differences["image"] += int((observation["image"][i] != view["image"]).sum())
            report.differences["direction"] += int(observation["direction"][i] != view["direction"])
            generator = pack_generator(twins[i].env.np_random.bit_generator)
            report.differences["generators"] += int((state["generators"][i] != generator).sum())
        for i in np.flatnonzero(seen_whole):
            report.differences["grid"] += int((observation["grid"][i] != farama_full_grid(twins[i].env)).sum())
        return state


def _count(
    report: Report, reset: np.ndarray, reward: Any, terminated: Any, truncated: Any, before: Any, now: Any
) -> None:
    report.steps += int((~reset).sum())
    report.levels += int(reset.sum())
    report.successes += int((reward > 0).sum())
    report.failures += int((terminated & (reward <= 0)).sum())
    report.timeouts += int((truncated & ~terminated).sum())
    report.pickups += int(((before["carried"] == 0) & (now["carried"] != 0) & ~reset).sum())
    changed = (before["cells"] != now["cells"]) & (before["cells"] & 0xFF == DOOR) & (now["cells"] & OPAQUE_BIT == 0)
    report.opened += int(changed[~reset].sum())


class Twin:
    """One of Farama's environments, which draws its view only when it is asked for, and whose cells are cheap."""

    def __init__(self, task: Task) -> None:
        made: Any = make_farama(task)
        self.env = made.unwrapped
        self.view = self.env.gen_obs
        self.env.gen_obs = dict  # `step` and `reset` pass on what it returns, and do nothing else with it
        cells = task.width * task.height
        self._things: list[Any] = [...] * cells
        self._doors: list[tuple[int, Any]] = []
        self._codes = np.empty(cells, dtype=np.uint32)

    def reset(self, seed: int | None = None) -> tuple[float, bool, bool]:
        """Start an episode; returns what a step that only resets does."""
        self.env.reset(seed=seed)
        return 0.0, False, False

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Play an action; returns reward, terminated, truncated."""
        _, reward, terminated, truncated, _ = self.env.step(action)
        return reward, terminated, truncated

    def cells(self) -> np.ndarray:
        """The codes of all cells, uint32 [W, H]: a view that the next call changes."""
        things = self.env.grid.grid
        # Farama's objects are equal if they are the same one, and only doors change: they open and close.
        if things != self._things:
            for k, (thing, before) in enumerate(zip(things, self._things, strict=True)):
                if thing is not before:
                    self._codes[k] = farama_cell(thing)
            self._things = things.copy()
            self._doors = [(k, thing) for k, thing in enumerate(things) if thing is not None and thing.type == "door"]
        for k, door in self._doors:
            self._codes[k] = farama_cell(door)
        return self._codes.reshape(self.env.height, self.env.width).T


def farama_full_grid(env: MiniGridEnv) -> np.ndarray:
    """What Farama's FullyObsWrapper shows, uint8 [W, H, 3]."""
    from minigrid.wrappers import FullyObsWrapper

    return FullyObsWrapper(env).observation({})["image"]


def farama_cell(thing: WorldObj | None) -> int:
    """The code of one of Farama's objects, contents included."""
    if thing is None:
        return EMPTY_CELL
    if thing.type == "wall":
        return WALL_CELL
    kind, color, state = thing.encode()
    code = kind | color << 8 | state << 16
    if thing.contains is not None:
        inner_kind, inner_color, _ = thing.contains.encode()
        code |= inner_kind << 24 | inner_color << 28
    return code if thing.see_behind() else code | OPAQUE_BIT
