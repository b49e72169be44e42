"""Random network distillation: a state is new while one network cannot predict another, random one on it."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bebold.config import RNDConfig
from bebold.encoding import OneHotLinear, distinct
from bebold.errors import UsageError
from bebold.methods.keys import touched
from bebold.methods.novelty import Novelty, counted
from bebold.optimise import Optimiser, Peers
from bebold.rollout import Rollout


class RNDNovelty(Novelty):
    """n(o) = ‖φ(o) - φ'(o)‖₂: φ random and frozen, φ' learns to agree (BeBold Eq. 3; Burda et al. 2018).

    Equal observations are encoded once, and φ is asked once a rollout.

    Parameters
    ----------
    shape : of one observation, without `T` and `B`
    seed : of both networks and of the minibatches; the global random state is neither read nor changed
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        config: RNDConfig | None = None,
        *,
        seed: int = 0,
        device: torch.device | str = "cpu",
        peers: Peers | None = None,
    ):
        super().__init__()
        self.config = config = config or RNDConfig()
        if config.encoding not in SOURCES:
            raise UsageError(f"there is no RND encoding '{config.encoding}'; choose one of {', '.join(SOURCES)}")
        self.source = SOURCES[config.encoding]
        self.needs = frozenset({self.source})
        self.generator = torch.Generator().manual_seed(seed)
        self.target = _network(config, shape, config.target_layers, self.generator).requires_grad_(False)
        self.predictor = _network(config, shape, config.predictor_layers, self.generator)
        if config.normalise_target:
            nn.init.zeros_(self.predictor[-1].get_parameter("weight"))
        self.to(device)
        self.optimiser = Optimiser(self.predictor.parameters(), learning_rate=config.learning_rate, peers=peers)
        self._prepared: tuple[weakref.ref[Rollout], _Prepared] | None = None

    def measure(self, rollout: Rollout) -> Tensor:
        """float32 `[T + 1, B]`."""
        prepared = self._prepare(rollout)
        with torch.no_grad():
            return self._error(prepared.obs, prepared.targets)[prepared.inverse]

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train φ' on all of `obs[1:]`, in minibatches drawn at random over time and environments."""
        prepared = self._prepare(rollout)
        seen = prepared.inverse[counted(rollout)]
        losses = []
        for _ in range(self.config.epochs):
            for batch in self._shuffle(len(seen)).to(seen.device).tensor_split(self.config.minibatches):
                # Equal observations have equal errors: each is computed once and weighs as its copies would.
                weights = torch.bincount(seen[batch], minlength=len(prepared.obs))
                rows = weights.nonzero().squeeze(1)
                loss = self.loss(
                    prepared.obs.index_select(0, rows), prepared.targets.index_select(0, rows), weights[rows]
                )
                self.optimiser.step(loss)
                losses.append(loss.detach())
        self._prepared = None
        return {"intrinsic/predictor_loss": float(torch.stack(losses).mean())}

    def _shuffle(self, n: int) -> Tensor:
        """A random order of `n`. Draws one number, so that workers with unequal `n` keep equal generators."""
        seed = torch.randint(2**62, (), generator=self.generator)
        return torch.randperm(n, generator=torch.Generator().manual_seed(int(seed)))

    def loss(self, obs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Mean of n(o) or of n(o)² over observations that occur `weights [U]` times each; a scalar."""
        error = self._error(obs, targets)
        if self.config.loss == "square":
            error = error.square()
        return (weights * error).sum() / weights.sum().clamp(min=1)

    def _error(self, obs: Tensor, targets: Tensor) -> Tensor:
        """‖φ(o) - φ'(o)‖₂, `[U]`. At an error of exactly 0 its gradient is 0, by vector_norm's convention."""
        return torch.linalg.vector_norm(targets - self.predictor(obs), dim=-1)

    def _target(self, obs: Tensor) -> Tensor:
        """φ(o), `[U, outputs]`; where normalised, of mean 0 and norm 1 for every observation."""
        output = self.target(obs)
        if not self.config.normalise_target:
            return output
        return nn.functional.normalize(output - output.mean(dim=-1, keepdim=True), dim=-1)

    @torch.no_grad()
    def _prepare(self, rollout: Rollout) -> _Prepared:
        """What `measure` and `update` of a rollout share: the distinct observations, and φ of them."""
        if self._prepared is not None and self._prepared[0]() is rollout:
            return self._prepared[1]
        every = rollout.obs[self.source].flatten(0, 1)
        if self.config.encoding == "contact":
            every = touched(every).contiguous()
        elif self.config.encoding == "shapes":
            every = every.clone()
            every[..., 1] = 0  # of (object, colour, state)
        first, inverse = distinct(every)
        obs = every[first]
        prepared = _Prepared(inverse.view(rollout.starts.shape), obs, self._target(obs))
        self._prepared = weakref.ref(rollout), prepared
        return prepared

    def get_extra_state(self) -> dict[str, Any]:
        return {"optimiser": self.optimiser.state_dict(), "generator": self.generator.get_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"].cpu())
        self._prepared = None


@dataclass(frozen=True)
class _Prepared:
    inverse: Tensor
    """int64 `[T + 1, B]`: which distinct observation each is."""
    obs: Tensor
    """`[U, ...]`."""
    targets: Tensor
    """float32 `[U, outputs]`."""


class _Scaled(nn.Module):
    """Observations as flat float32 vectors, times a factor: `[N, ...]` to `[N, width]`."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, obs: Tensor) -> Tensor:
        return obs.flatten(1).float() * self.factor


SOURCES = {"onehot": "image", "contact": "image", "shapes": "image", "codes": "image", "raw": "vector"}
"""Which observation each `RNDConfig.encoding` reads."""


def _network(config: RNDConfig, shape: tuple[int, ...], layers: int, generator: torch.Generator) -> nn.Sequential:
    """`layers` hidden layers with ReLU on the encoded observation; orthogonal weights, zero biases."""
    size = touched(torch.empty(shape)).numel() if config.encoding == "contact" else math.prod(shape)
    widths = [size, *[config.hidden] * layers, config.outputs]
    linears: list[nn.Linear | OneHotLinear] = [nn.utils.skip_init(nn.Linear, *pair) for pair in pairwise(widths)]
    parts: list[nn.Module] = []
    if config.encoding in ("onehot", "contact", "shapes"):
        linears[0] = OneHotLinear(size // 3, widths[1])
    else:
        parts.append(_Scaled(0.1 if config.encoding == "codes" else 1.0))
    for linear in linears:
        last = linear is linears[-1]
        nn.init.orthogonal_(linear.weight, gain=1.0 if last else 2**0.5, generator=generator)
        nn.init.zeros_(linear.bias)
        parts += [linear] if last else [linear, nn.ReLU()]
    return nn.Sequential(*parts)
