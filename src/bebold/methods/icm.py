"""The intrinsic curiosity module (Pathak et al. 2017), and the impact that RIDE reads off its embedding."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from bebold.config import ICMConfig
from bebold.convolutions import ride_encoder
from bebold.defaults import or_usual
from bebold.encoding import distinct
from bebold.methods import embedding
from bebold.methods.novelty import Novelty, shuffled
from bebold.optimise import Peers, predictor_optimiser
from bebold.products import round_up
from bebold.rollout import Rollout
from bebold.seeded import seeded


class ICMNovelty(Novelty):
    """An embedding φ that must predict itself and the actions taken; what is measured are transitions.

    error:  ‖f(φ(o_t), a_t) - φ(o_{t+1})‖₂, where f foresees the next embedding (ICM; the norm as RIDE takes it)
    impact: ‖φ(o_{t+1}) - φ(o_t)‖₂ (RIDE, Raileanu and Rocktäschel 2020, Eq. 4)

    Both losses, that of f and that of the inverse model, which names the action from both embeddings, train φ.

    Parameters
    ----------
    shape : of one observation, without `T` and `B`
    num_actions : `A`
    measures : `error` or `impact`
    seed : of the networks and the minibatches; the global random state is neither read nor changed
    """

    kind = "transition"

    def __init__(
        self,
        shape: tuple[int, ...],
        num_actions: int,
        config: ICMConfig | None = None,
        *,
        measures: Literal["error", "impact"] = "error",
        seed: int = 0,
        device: torch.device | str = "cpu",
        peers: Peers | None = None,
    ):
        super().__init__()
        self.config = config = config or ICMConfig()
        self.measures = measures
        self.num_actions = num_actions
        self.source = embedding.source(config.encoding)
        self.needs = frozenset({self.source})
        self.generator = torch.Generator().manual_seed(seed)
        with seeded(seed):
            self.embed = _embedding(config, shape, self.generator)
            self.forward_model = _model(config.outputs + num_actions, config.model_hidden, config.outputs)
            self.inverse_model = _model(2 * config.outputs, config.model_hidden, num_actions)
        self.to(device)
        self.optimiser = predictor_optimiser(self.parameters(), config, peers)

    @torch.no_grad()
    def measure(self, rollout: Rollout) -> Tensor:
        """float32 `[T, B]`."""
        every = embedding.seen(self.config.encoding, rollout.obs[self.source].flatten(0, 1))
        phi = self._embedded(every).unflatten(0, rollout.starts.shape)
        before, after = phi[:-1], phi[1:]
        if self.measures == "impact":
            return torch.linalg.vector_norm(after - before, dim=-1)
        return torch.linalg.vector_norm(self._foreseen(before, rollout.action) - after, dim=-1)

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train all three on the valid transitions, in minibatches drawn at random over time and environments."""
        every = embedding.seen(self.config.encoding, rollout.obs[self.source].flatten(0, 1))
        taught = rollout.valid if rollout.successor_valid is None else rollout.valid & rollout.successor_valid[1:]
        place = taught.flatten().nonzero().squeeze(1)
        # Equal transitions have equal losses: each is computed once and weighs as its copies would.
        first, view_of = distinct(every)
        views = every[first]
        columns = (view_of[: -rollout.num_envs], rollout.action.flatten(), view_of[rollout.num_envs :])
        transitions = torch.stack(columns, dim=1)[place]
        first, transition_of = distinct(transitions)
        transitions = transitions[first]
        # Workers have unequal numbers of valid steps: each divides by the mean, which makes the mean over all steps.
        sizes = torch.tensor([float(len(part)) for part in place.tensor_split(self.config.minibatches)])
        self.optimiser.peers.average_(sizes)
        losses = []
        for _ in range(or_usual(self.config.epochs, "intrinsic.icm.epochs")):
            order = transition_of[shuffled(len(place), self.generator).to(place.device)]
            for batch, size in zip(order.tensor_split(self.config.minibatches), sizes.tolist(), strict=True):
                weights = torch.bincount(batch, minlength=len(transitions))
                found = weights.nonzero().squeeze(1)
                sums = self.losses(views, transitions[found], weights[found])
                foresight, inversion = (loss / max(size, 1.0) for loss in sums)
                self.optimiser.step(self.config.forward_loss * foresight + self.config.inverse_loss * inversion)
                losses.append(torch.stack((foresight.detach(), inversion.detach())))
        foresight, inversion = torch.stack(losses).mean(dim=0)
        return {"intrinsic/forward_loss": float(foresight), "intrinsic/inverse_loss": float(inversion)}

    def losses(self, views: Tensor, transitions: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The norm of the forward model's error, and the cross-entropy of the inverse model's action, each summed.

        `views` are `[U, ...]`; transitions (one of them, action, the next), `[N, 3]`, occur `weights [N]` times each.
        """
        before, action, after = transitions.unbind(1)
        used = torch.cat((before, after)).bincount(minlength=len(views))
        phi = self.embed(views[round_up(used.nonzero().squeeze(1))])
        row = (used > 0).cumsum(0) - 1
        before, after = phi.index_select(0, row[before]), phi.index_select(0, row[after])
        foresight = torch.linalg.vector_norm(self._foreseen(before, action) - after, dim=-1)
        logits = self.inverse_model(torch.cat((before, after), dim=-1))
        inversion = nn.functional.cross_entropy(logits, action, reduction="none")
        return (weights * foresight).sum(), (weights * inversion).sum()

    def _embedded(self, every: Tensor) -> Tensor:
        """φ of observations `[N, ...]`, equal ones encoded once: `[N, D]`."""
        first, inverse = distinct(every)
        return self.embed(every[round_up(first)]).index_select(0, inverse)

    def _foreseen(self, before: Tensor, action: Tensor) -> Tensor:
        """f(φ(o), a): `[..., D]`."""
        taken = nn.functional.one_hot(action, self.num_actions).to(before.dtype)
        return self.forward_model(torch.cat((before, taken), dim=-1))

    def get_extra_state(self) -> dict[str, Any]:
        return {"optimiser": self.optimiser.state_dict(), "generator": self.generator.get_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"].cpu())


def _embedding(config: ICMConfig, shape: tuple[int, ...], generator: torch.Generator) -> nn.Sequential:
    if config.architecture == "ride":
        return ride_encoder(shape, config.outputs, embedding.factor(config.encoding, shape))
    return embedding.dense_layers(config.encoding, shape, config.hidden, config.layers, config.outputs, generator)


def _model(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """One hidden layer with ReLU; orthogonal weights, zero biases."""
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    for layer, gain in ((model[0], 2**0.5), (model[2], 1.0)):
        nn.init.orthogonal_(layer.get_parameter("weight"), gain)
        nn.init.zeros_(layer.get_parameter("bias"))
    return model
