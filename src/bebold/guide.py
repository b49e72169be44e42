"""A guide adds observations of its own to what a policy sees."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Guide(nn.Module):
    """What whoever plays a policy asks of its guide.

    A guide remembers nothing itself. What it needs to know of the past is among what it showed with the last
    observation, so that one guide serves any number of environments, and to save what was shown last is enough.
    """

    needs: frozenset[str]
    """Names of the environment's observations that it reads."""
    gives: frozenset[str]
    """Names of the observations that it adds."""

    def observe(
        self,
        obs: Mapping[str, Tensor],
        starts: Tensor,
        last: Mapping[str, Tensor],
        *,
        greedy: bool = False,
        generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """What it adds to the observations of `B` environments. All tensors but its own weights are on the CPU.

        Parameters
        ----------
        obs : each `[B, ...]`, those of `needs`
        starts : bool `[B]`, where an episode begins
        last : what was shown of the same environments before, its own additions included; empty at first, when all
            begin
        greedy : choose what is likeliest in place of drawing
        generator : of what is drawn, on the weights' device
        """
        raise NotImplementedError

    def check(self, shown: Mapping[str, Tensor]) -> None:
        """Refuse what it cannot have shown; shapes and types are right.

        Raises
        ------
        ValueError : says what is wrong
        """
        raise NotImplementedError
