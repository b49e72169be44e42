"""What looks on while agents train: the maps of one level."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from bebold.config import TrainConfig
from bebold.maps import FILE, Maps
from bebold.optimise import Peers
from bebold.rollout import Rollout

if TYPE_CHECKING:
    from bebold.gridworld.layout import Layout


class Observer(Protocol):
    """Sees every rollout and changes nothing. The same on all workers; its state is part of the checkpoint."""

    needs: frozenset[str]
    """What rollouts must keep for it: names of observations, or of arrays in `info`."""

    def observe(self, rollout: Rollout, steps: int) -> None:
        """Look at a rollout, before which `steps` environment steps had been taken."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up a state; `ValueError` if it is of another level."""

    def write(self, folder: Path) -> None:
        """Write what it has seen to the run folder."""


class Sample(Protocol):
    """Lets the present policy play at least `steps` steps; returns these, and their bonus `[T, B]`."""

    def __call__(self, steps: int, *, seed: int) -> tuple[Rollout, Tensor]: ...


class Mapper:
    """Counts where training goes in one level, and every `interval` steps lets the policy show what it is paid where.

    Parameters
    ----------
    interval : environment steps between two maps; each is made after the update that passes a multiple of it
    sample : plays `sample_steps` of the policy's own steps or a few more
    seed : of these plays
    peers : the workers that learn together, whose visits are counted together
    """

    needs = frozenset({"agent_pos"})

    def __init__(
        self, level: Layout, sample: Sample, *, interval: int, sample_steps: int, seed: int, peers: Peers | None = None
    ):
        self.level = level
        self.sample = sample
        self.interval = interval
        self.sample_steps = sample_steps
        self.seed = seed
        self.peers = peers or Peers()
        height, width = level.room.shape
        self.walls = torch.from_numpy(level.walls.copy())
        self.room = torch.from_numpy(level.room.astype(np.int64)).flatten()
        self.visits = torch.zeros(height, width, dtype=torch.int64)
        # The agent starts in the first room.
        self.first_entry = torch.tensor([0] + [-1] * (level.num_rooms - 1))
        self.taken = {
            "steps": torch.zeros(0, dtype=torch.int64),
            "visits": torch.zeros(0, height, width, dtype=torch.int64),
            "bonus": torch.zeros(0, height, width),
            "density": torch.zeros(0, height, width),
        }

    def observe(self, rollout: Rollout, steps: int) -> None:
        """Count where the steps led to, and take the maps when they are due."""
        valid = rollout.valid.cpu()
        cell, rooms = self._cells(rollout), len(self.first_entry)
        room = self.room[cell]
        time = torch.arange(rollout.num_steps)[:, None].expand_as(valid)[valid]
        # All that the workers must add up, in one message.
        counts = (
            torch.bincount(cell, minlength=self.visits.numel()),
            torch.bincount((time * rooms + room)[room >= 0], minlength=rollout.num_steps * rooms),
            valid.sum(dim=1),
        )
        added = self.peers.gather(torch.cat(counts)[None]).sum(dim=0)
        visits, entries, moves = added.split([len(count) for count in counts])
        self.visits += visits.view_as(self.visits)
        after = steps + moves.cumsum(dim=0)
        inside = entries.view(-1, rooms) > 0
        entered = inside.any(dim=0) & (self.first_entry < 0)
        self.first_entry[entered] = after[inside.byte().argmax(dim=0)[entered]]
        now = int(after[-1])
        if now // self.interval > steps // self.interval:
            self._take(now)

    def maps(self) -> Maps:
        """The maps taken so far."""
        taken = {name: x.numpy().copy() for name, x in self.taken.items()}
        level = {"walls": self.level.walls, "room": self.level.room}
        return Maps(**taken, **level, first_entry=self.first_entry.numpy().copy())

    def state_dict(self) -> dict[str, Any]:
        level = {"walls": self.walls, "room": self.room}  # whose counts these are
        return {**level, "visits": self.visits, "first_entry": self.first_entry, "taken": dict(self.taken)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not (torch.equal(state["walls"], self.walls) and torch.equal(state["room"], self.room)):
            raise ValueError("its maps are of another level")
        for name, own in (("visits", self.visits), ("first_entry", self.first_entry)):
            if (state[name].shape, state[name].dtype) != (own.shape, own.dtype):
                raise ValueError(f"its maps hold other {name} than this level can have")
        self.visits, self.first_entry = state["visits"].clone(), state["first_entry"].clone()
        self.taken = {name: state["taken"][name] for name in self.taken}
        self.maps()

    def write(self, folder: Path) -> None:
        self.maps().save(folder / FILE)

    def _take(self, now: int) -> None:
        """Maps as of `now` steps."""
        seed, _ = np.random.SeedSequence((self.seed, 0, now)).generate_state(2).tolist()
        rollout, bonus = self.sample(self.sample_steps, seed=seed)
        cell = self._cells(rollout)
        steps = torch.bincount(cell, minlength=self.visits.numel()).double()
        paid = torch.bincount(cell, weights=bonus.cpu()[rollout.valid.cpu()].double(), minlength=self.visits.numel())
        new = {
            "steps": torch.tensor(now),
            "visits": self.visits,
            "bonus": (paid / steps).float().view_as(self.visits),  # 0 / 0 is NaN: no step led there
            "density": (steps / steps.sum()).float().view_as(self.visits),
        }
        self.taken = {name: torch.cat((x, new[name][None])) for name, x in self.taken.items()}

    def _cells(self, rollout: Rollout) -> Tensor:
        """Index of the cell that each valid step led to, int64 `[valid steps]`, row by row of the level."""
        x, y = rollout.obs["agent_pos"][1:].cpu()[rollout.valid.cpu()].unbind(dim=-1)
        return y * self.visits.shape[1] + x


def build_observers(config: TrainConfig, sample: Sample, *, peers: Peers | None = None) -> list[Observer]:
    """What these settings ask to look on: nothing, or maps."""
    if not config.maps.interval:
        return []
    from bebold.gridworld.layout import layout  # loads parts of SciPy, which other runs need not

    assert config.fixed_level is not None, "`validate` sees to it"
    level = layout(config.task, config.fixed_level)
    settings = config.maps
    return [
        Mapper(
            level,
            sample,
            interval=settings.interval,
            sample_steps=settings.steps,
            seed=config.seed,
            peers=peers,
        )
    ]
