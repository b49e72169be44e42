"""The formula: a novelty, a difference along the trajectory, a restriction within the episode."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bebold.errors import UsageError
from bebold.methods.novelty import Novelty
from bebold.rollout import Rollout


def novelty_difference(n_t: Tensor, n_tp1: Tensor, alpha: float) -> Tensor:
    """max(n(o_{t+1}) - α·n(o_t), 0), all `[T, B]`. BeBold Eq. 3 (α = 1), NovelD (α = 0.5)."""
    return (n_tp1 - alpha * n_t).clamp(min=0.0)


def novelty_change(n_t: Tensor, n_tp1: Tensor, alpha: float) -> Tensor:
    """n(o_{t+1}) - α·n(o_t), all `[T, B]`: negative on the way back. BeBold's ablation of clipping."""
    return n_tp1 - alpha * n_t


def novelty_alone(n_t: Tensor, n_tp1: Tensor, alpha: float) -> Tensor:
    """n(o_{t+1}), all `[T, B]`. RND (Burda et al. 2018), count-based bonuses."""
    return n_tp1


def first_visit(count: Tensor) -> Tensor:
    """1{N_e(o_{t+1}) = 1}, `[T, B]`: BeBold's episodic restriction (ERIR)."""
    return (count == 1).float()


def inverse_sqrt(count: Tensor) -> Tensor:
    """1/√N_e(o_{t+1}), `[T, B]`: the restriction of RIDE (Raileanu and Rocktäschel 2020)."""
    return 1.0 / count.float().sqrt()


def unrestricted(count: Tensor) -> Tensor:
    """1, `[T, B]`: every visit is paid."""
    return torch.ones_like(count, dtype=torch.float32)


DIFFERENCES: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "clipped": novelty_difference,
    "unclipped": novelty_change,
    "none": novelty_alone,
}
RESTRICTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "first_visit": first_visit,
    "inverse_sqrt": inverse_sqrt,
    "none": unrestricted,
}


class IntrinsicReward(nn.Module):
    """r_i = difference(n(o_t), n(o_{t+1})) · restriction(N_e(o_{t+1})).

    `state_dict()` holds all there is to save: parameters, optimiser, generators, counts. A checkpoint of it
    can be opened with `torch.load(weights_only=True)`.

    Parameters
    ----------
    novelty : a measure of states (`[T + 1, B]`) or of transitions (`[T, B]`: no difference to take)
    difference : `clipped`, `unclipped` or `none`
    restriction : `first_visit`, `inverse_sqrt` or `none`
    alpha : α of the difference

    Raises
    ------
    UsageError : an unknown part, or a difference of transition measures
    """

    def __init__(self, novelty: Novelty, *, difference: str = "none", restriction: str = "none", alpha: float = 1.0):
        super().__init__()
        for kind, name, table in (
            ("difference", difference, DIFFERENCES),
            ("restriction", restriction, RESTRICTIONS),
        ):
            if name not in table:
                raise UsageError(f"there is no {kind} '{name}'; choose one of {', '.join(table)}")
        if novelty.kind == "transition" and difference != "none":
            raise UsageError(
                f"{type(novelty).__name__} measures transitions, and the difference '{difference}' is taken "
                "between two states: choose the difference 'none' or a novelty of states"
            )
        self.novelty = novelty
        self.alpha = alpha
        self._difference = DIFFERENCES[difference]
        self._restriction = RESTRICTIONS[restriction]
        self._report: tuple[weakref.ref[Rollout], dict[str, float]] | None = None

    @property
    def needs(self) -> frozenset[str]:
        """Names of the observations that a rollout must keep for this reward."""
        return self.novelty.needs

    @torch.no_grad()
    def reward(self, rollout: Rollout) -> Tensor:
        """The bonus of each step, float32 `[T, B]`. Changes nothing: call it as often as you like.

        The last step of an episode is paid for the true terminal observation. The step after it, which only
        resets, leads into another episode and is paid nothing; nor is a step into a blank frame.

        Raises
        ------
        UsageError : the rollout lacks an observation that is needed
        """
        rollout.require(self.needs)
        measured = self.novelty.measure(rollout)
        if self.novelty.kind == "transition":
            change = measured
        else:
            n_t, n_tp1 = measured[:-1], measured[1:]
            change = self._difference(n_t, n_tp1, self.alpha)
        bonus = change * self._restriction(rollout.episodic_count[1:])
        paid = rollout.valid
        if rollout.successor_valid is not None:
            paid = paid & rollout.successor_valid[1:]
        bonus = torch.where(paid, bonus, 0.0)
        # What was paid is reported by update(), which runs after the measure has moved on.
        self._report = weakref.ref(rollout), self._statistics(rollout, bonus, measured)
        return bonus

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from the rollout; returns `intrinsic/*`: what `reward` paid for it, and how learning went."""
        if self._report is None or self._report[0]() is not rollout:
            self.reward(rollout)
        assert self._report is not None
        statistics, self._report = self._report[1], None
        return statistics | self.novelty.update(rollout)

    def _statistics(self, rollout: Rollout, bonus: Tensor, measured: Tensor) -> dict[str, float]:
        """Means over the valid steps."""
        steps = max(int(rollout.valid.sum()), 1)
        first = (rollout.episodic_count[1:] == 1) & rollout.valid
        statistics = {
            "intrinsic/reward_mean": float(bonus.sum()) / steps,
            "intrinsic/first_visit_fraction": int(first.sum()) / steps,
        }
        if self.novelty.informative:
            novelty = torch.where(rollout.valid, measured[-rollout.num_steps :], 0.0)
            statistics["intrinsic/novelty_mean"] = float(novelty.sum()) / steps
        return statistics
