"""The record of experience. `T` is the number of steps of a rollout, `B` the number of environments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from bebold.errors import UsageError


@dataclass(frozen=True)
class Rollout:
    """Time-major experience of `B` environments over `T` steps under NEXT_STEP autoreset.

    Step `t` leads from `obs[t]` by `action[t]` to `obs[t + 1]`, the true successor: a terminal observation is
    included, and the step after it ignores its action and only resets. Such a step is not `valid`.
    """

    obs: dict[str, Tensor]
    """Each `[T + 1, B, ...]`: what the environments showed, and what the intrinsic reward asked to have kept."""
    action: Tensor
    """int64 `[T, B]`."""
    reward: Tensor
    """float32 `[T, B]`: extrinsic, unscaled."""
    terminated: Tensor
    """bool `[T, B]`: the task ended; the future is worth nothing."""
    truncated: Tensor
    """bool `[T, B]`: the time limit was reached; both may hold at the last allowed step."""
    starts: Tensor
    """bool `[T + 1, B]`: this observation begins an episode."""
    episodic_count: Tensor
    """int32 `[T + 1, B]`: visits of this observation's key in its episode, the present one included."""
    log_prob: Tensor
    """float32 `[T, B]`: log-probability of the action under the behaviour policy."""
    value: Tensor
    """float32 `[T + 1, B, H]`: of the behaviour policy, one entry a value head."""
    state: Tensor
    """float32 `[B, S]`: recurrent state before `obs[0]`."""
    successor_valid: Tensor | None = None
    """bool `[T + 1, B]` or None (all True): False where an environment showed a blank in place of an observation."""

    @property
    def valid(self) -> Tensor:
        """bool `[T, B]`: False on the steps that only reset."""
        return ~self.starts[1:]

    @property
    def ended(self) -> Tensor:
        """bool `[T, B]`: the episode ended with this step, for whatever reason."""
        return self.terminated | self.truncated

    @property
    def cut(self) -> Tensor:
        """bool `[T, B]`: no value can stand for what follows. The task ended, or a time-out left a blank."""
        if self.successor_valid is None:
            return self.terminated
        return self.terminated | self.truncated & ~self.successor_valid[1:]

    @property
    def num_steps(self) -> int:
        """`T`."""
        return self.action.shape[0]

    @property
    def num_envs(self) -> int:
        """`B`."""
        return self.action.shape[1]

    def require(self, names: Iterable[str]) -> None:
        """Refuse to go on without these observations.

        Raises
        ------
        UsageError : says which are missing
        """
        missing = sorted(set(names) - self.obs.keys())
        if missing:
            raise UsageError(
                f"the rollout's obs lack {', '.join(missing)}, which this intrinsic reward reads: keep at every step "
                "all that its `needs` name"
            )

    def of_envs(self, envs: Tensor, names: Iterable[str]) -> Rollout:
        """Of some environments alone, and with these observations alone; `envs` are indices, int64 `[N]`."""
        entries: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        chosen = {
            name: x.index_select(0 if name == "state" else 1, envs)
            for name, x in entries.items()
            if isinstance(x, Tensor)
        }
        return replace(self, obs={name: self.obs[name].index_select(1, envs) for name in names}, **chosen)

    def to(self, device: torch.device | str) -> Rollout:
        """The same on another device."""
        entries: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {name: x.to(device) for name, x in entries.items() if isinstance(x, Tensor)}
        return replace(self, obs={name: x.to(device) for name, x in self.obs.items()}, **moved)
