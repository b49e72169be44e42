"""How new a state is: what every measure promises; means over equal keys; inverse visit counts; a constant."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bebold.errors import UsageError
from bebold.methods.counts import LifelongCounter
from bebold.optimise import Peers
from bebold.rollout import Rollout


class Novelty(nn.Module):
    """A measure of novelty. `measure` changes nothing; `update` learns from all of `obs[1:]`."""

    kind: Literal["state", "transition"] = "state"
    """A state measure is `[T + 1, B]`, a value an observation; a transition measure `[T, B]`, one a step."""
    needs: frozenset[str] = frozenset()
    """Names of the observations that it reads."""
    informative: bool = True
    """Whether its mean is worth a line in the log."""

    def measure(self, rollout: Rollout) -> Tensor:
        raise NotImplementedError

    def update(self, rollout: Rollout) -> dict[str, float]:
        return {}


class ConstantNovelty(Novelty):
    """n(o) = value: with 1, the restriction is the whole bonus; with 0, there is none."""

    informative = False

    def __init__(self, value: float = 1.0):
        super().__init__()
        self.value = value

    def measure(self, rollout: Rollout) -> Tensor:
        """float32 `[T + 1, B]`."""
        return torch.full_like(rollout.starts, self.value, dtype=torch.float32)


class AveragedNovelty(Novelty):
    """The mean of another novelty over all observations of a rollout that have the same `obs["key"]`.

    Where chance makes the observations of one key differ, no outcome is worth more than another. Each worker takes the
    mean over its own observations.

    Raises
    ------
    UsageError : the other one measures transitions
    """

    def __init__(self, novelty: Novelty):
        super().__init__()
        if novelty.kind == "transition":
            raise UsageError(f"{type(novelty).__name__} measures transitions, and means are taken over states' keys")
        self.novelty = novelty
        self.needs = novelty.needs | {"key"}

    def measure(self, rollout: Rollout) -> Tensor:
        """float32 `[T + 1, B]`; blank frames add nothing to a mean."""
        n = self.novelty.measure(rollout)
        _, group = torch.unique(rollout.obs["key"].flatten(), return_inverse=True)
        weight = torch.ones_like(n) if rollout.successor_valid is None else rollout.successor_valid.to(n)
        weight = weight.flatten().double()
        total = torch.bincount(group, weights=weight * n.flatten())
        mean = total / torch.bincount(group, weights=weight).clamp(min=1.0)
        return mean[group].float().view_as(n)

    def update(self, rollout: Rollout) -> dict[str, float]:
        return self.novelty.update(rollout)


class CountNovelty(Novelty):
    """n(o) = 1 / N(o)^power with exact lifelong counts of `obs["key"]`, int64 `[T + 1, B]`.

    power = 1: BeBold Eq. 1; power = 1/2: the count-based bonus of Bellemare et al. 2016. Counts are taken one
    visit after the other in time-major order, the present visit included, so that the second visit within a
    rollout is worth less than the first. All workers share one count; what the others saw shows from the next
    rollout on.
    """

    needs = frozenset({"key"})

    def __init__(self, *, capacity: int = 2**24, power: float = 1.0, peers: Peers | None = None):
        super().__init__()
        self.counter = LifelongCounter(capacity)
        self.power = power
        self.peers = peers or Peers()

    def measure(self, rollout: Rollout) -> Tensor:
        """float32 `[T + 1, B]`; nothing is added to the counts."""
        keys = rollout.obs["key"].cpu().numpy()
        before = self.counter.count(keys.ravel().view(np.uint64)).reshape(keys.shape)
        counts = before + _occurrences(keys, counted(rollout).cpu().numpy())
        # The last rollout counted obs[0], but nobody the very first observations of training.
        n = np.maximum(counts, 1) ** -self.power
        return torch.from_numpy(n.astype(np.float32)).to(rollout.starts.device)

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Count every observation of `obs[1:]`, on all workers."""
        seen = self.peers.gather(rollout.obs["key"][counted(rollout)].cpu())
        keys, times = np.unique(seen.numpy(), return_counts=True)
        self.counter.add(keys.view(np.uint64), times)
        return {
            "intrinsic/states_counted": float(self.counter.size),
            "intrinsic/visits_uncounted": float(self.counter.saturated),
        }

    def get_extra_state(self) -> dict[str, Any]:
        state = self.counter.state_dict()
        return state | {name: torch.from_numpy(state[name]) for name in ("keys", "counts")}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.counter.load_state_dict(state)


def counted(rollout: Rollout) -> Tensor:
    """bool `[T + 1, B]`: what to learn from: all but `obs[0]`, which the last rollout saw, and blanks."""
    seen = torch.ones_like(rollout.starts) if rollout.successor_valid is None else rollout.successor_valid.clone()
    seen[0] = False
    return seen


def shuffled(n: int, generator: torch.Generator) -> Tensor:
    """A random order of `n`, int64 `[n]`. Draws one number, so that workers with unequal `n` keep equal generators."""
    seed = torch.randint(2**62, (), generator=generator)
    return torch.randperm(n, generator=torch.Generator().manual_seed(int(seed)))


def _occurrences(keys: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """How often each key was counted in this rollout up to and including each place, all `[T + 1, B]`."""
    order = np.argsort(keys, axis=None, kind="stable")
    sorted_keys, sorted_counted = keys.ravel()[order], counted.ravel()[order]
    running = np.cumsum(sorted_counted)
    new = np.r_[True, sorted_keys[1:] != sorted_keys[:-1]]
    before_group = (running - sorted_counted)[new][np.cumsum(new) - 1]
    occurrences = np.empty(keys.size, np.int64)
    occurrences[order] = running - before_group
    return occurrences.reshape(keys.shape)
