"""Random network distillation: a state is new while one network cannot predict another, random one on it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from bebold.config import RNDConfig
from bebold.convolutions import bebold_encoder, ride_encoder
from bebold.encoding import distinct
from bebold.methods import embedding
from bebold.methods.novelty import Novelty, counted, shuffled
from bebold.optimise import Peers, predictor_optimiser
from bebold.products import round_up
from bebold.rollout import Rollout
from bebold.seeded import seeded


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
        self.source = embedding.source(config.encoding)
        self.needs = frozenset({self.source})
        self.generator = torch.Generator().manual_seed(seed)
        with seeded(seed):
            self.encoder, self.target, self.predictor = _networks(config, shape, self.generator)
        if config.normalise_target and config.architecture != "ride":
            for parameter in self.predictor[-1].parameters():
                nn.init.zeros_(parameter)
        self.encoder.requires_grad_(False)
        self.target.requires_grad_(False)
        self.to(device)
        self.optimiser = predictor_optimiser(self.predictor.parameters(), config, peers)
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
            for batch in shuffled(len(seen), self.generator).to(seen.device).tensor_split(self.config.minibatches):
                # Equal observations have equal errors: each is computed once and weighs as its copies would.
                weights = torch.bincount(seen[batch], minlength=len(prepared.obs))
                found = weights.nonzero().squeeze(1)
                rows = self._padded(found)
                weights = torch.cat((weights[found], weights.new_zeros(len(rows) - len(found))))
                loss = self.loss(prepared.obs.index_select(0, rows), prepared.targets.index_select(0, rows), weights)
                self.optimiser.step(self.config.loss_scale * loss)
                losses.append(loss.detach())
        self._prepared = None
        return {"intrinsic/predictor_loss": float(torch.stack(losses).mean())}

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
        every = embedding.seen(self.config.encoding, rollout.obs[self.source].flatten(0, 1))
        first, inverse = distinct(every)
        obs = self.encoder(every[self._padded(first)])
        prepared = _Prepared(inverse.view(rollout.starts.shape), obs, self._target(obs))
        self._prepared = weakref.ref(rollout), prepared
        return prepared

    def _padded(self, rows: Tensor) -> Tensor:
        """Rows for the networks, some of them twice where convolutions want few shapes."""
        return rows if self.config.architecture == "mlp" else round_up(rows)

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
    """`[U, ...]`, as the frozen encoder shows them to φ and φ'."""
    targets: Tensor
    """float32 `[U, outputs]`."""


def _networks(
    config: RNDConfig, shape: tuple[int, ...], generator: torch.Generator
) -> tuple[nn.Module, nn.Sequential, nn.Sequential]:
    """The frozen encoder before both, φ and φ'."""
    if config.architecture == "ride":
        factor = embedding.factor(config.encoding, shape)
        both = [ride_encoder(shape, config.outputs, factor) for _ in range(2)]
        return nn.Identity(), both[0], both[1]
    if config.architecture == "bebold":
        encoder = bebold_encoder(shape, factor=embedding.factor(config.encoding, shape))
        target, predictor = (1024, 128, 128, 128, 128), (1024, 1024, 1024, 128, 128, 128)
        return encoder, _perceptron(target), _perceptron(predictor)
    dense = [
        embedding.dense_layers(config.encoding, shape, config.hidden, layers, config.outputs, generator)
        for layers in (config.target_layers, config.predictor_layers)
    ]
    return nn.Identity(), dense[0], dense[1]


def _perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    """Dense layers with ReLU between them, PyTorch's own initial weights."""
    parts: list[nn.Module] = []
    for pair in pairwise(widths):
        parts += [nn.Linear(*pair), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
