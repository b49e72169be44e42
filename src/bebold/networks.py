"""Actor-critics: torso, recurrent core, policy logits and one or two values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bebold.config import NetworkConfig
from bebold.encoding import OneHotLinear, distinct
from bebold.gru import MaskedGRU
from bebold.guide import Guide
from bebold.products import dense, product, round_up


@dataclass(frozen=True)
class Step:
    """What a policy says of `B` observations."""

    action: Tensor
    """int64 `[B]`."""
    log_prob: Tensor
    """float32 `[B]`."""
    logits: Tensor
    """float32 `[B, A]`."""
    value: Tensor
    """float32 `[B, H]`."""
    state: Tensor
    """float32 `[B, S]`: recurrent state after these observations."""


class ViewTorso(nn.Module):
    """Two dense layers on the one-hot view."""

    def __init__(self, cells: int, hidden: int):
        super().__init__()
        self.first = OneHotLinear(cells, hidden)
        nn.init.orthogonal_(self.first.weight, math.sqrt(2))
        self.second = dense(hidden, hidden)

    def forward(self, image: Tensor) -> Tensor:
        """Turn uint8 `[N, 7, 7, 3]` into float32 `[N, hidden]`."""
        x = torch.relu(self.first(image))
        return torch.relu(product(x, self.second.weight, self.second.bias))


class Policy(nn.Module):
    """What every actor-critic promises. One is built from the shape of its `source`, actions and settings."""

    needs: frozenset[str]
    """The observations it looks at, those that its guide adds included."""
    source: str
    """The observation whose shape it is built for."""
    num_actions: int
    guide: Guide | None
    """Adds observations, such as a goal. It is saved with the policy, and learns by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.guide = None

    @property
    def observes(self) -> frozenset[str]:
        """What an environment must show, to the policy and to its guide."""
        return self.needs if self.guide is None else (self.needs - self.guide.gives) | self.guide.needs

    def own_parameters(self) -> Iterator[nn.Parameter]:
        """What a learner trains: all but the guide's."""
        return (parameter for name, parameter in self.named_parameters() if not name.startswith("guide."))

    def initial_state(self, num_envs: int) -> Tensor:
        """Zeros, float32 `[B, S]`."""
        raise NotImplementedError

    def unroll(self, obs: Mapping[str, Tensor], state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run over time: logits `[T, B, A]`, values `[T, B, H]` and the last state `[B, S]`.

        Parameters
        ----------
        obs : each `[T, B, ...]`, those of `needs`
        state : float32 `[B, S]`, before the first observation
        starts : bool `[T, B]`, where the state is cleared first
        """
        raise NotImplementedError

    def unchanged(self) -> AbstractContextManager[None]:
        """Acting within it costs less if the network can keep what it computed; the weights must stay as they are."""
        return nullcontext()

    @torch.no_grad()
    def act(
        self,
        obs: Mapping[str, Tensor],
        state: Tensor,
        starts: Tensor,
        *,
        greedy: bool = False,
        generator: torch.Generator | None = None,
    ) -> Step:
        """Choose actions for observations `[B, ...]`: sampled, or the most likely if `greedy`."""
        logits, value, state = self.unroll({name: obs[name][None] for name in self.needs}, state, starts[None])
        log_probs = logits[0].log_softmax(dim=-1)
        action = log_probs.argmax(dim=-1) if greedy else sample(log_probs, generator)
        log_prob = log_probs.gather(-1, action[:, None]).squeeze(-1)
        return Step(action, log_prob, logits[0], value[0], state)


class ActorCritic(Policy):
    """Recurrent actor-critic on MiniGrid views. The heads see the memory and, past it, the torso."""

    needs = frozenset({"image"})
    source = "image"

    def __init__(self, image_shape: tuple[int, ...], num_actions: int, config: NetworkConfig):
        super().__init__()
        self.image_shape = tuple(image_shape)
        self.torso = ViewTorso(math.prod(self.image_shape[:-1]), config.hidden)
        self.core = MaskedGRU(config.hidden, config.memory)
        self.num_actions = num_actions
        outputs = num_actions + config.value_heads
        self.view_head = nn.Linear(config.hidden, outputs, bias=False)
        self.memory_head = nn.Linear(config.memory, outputs)
        nn.init.zeros_(self.memory_head.bias)
        for head in (self.view_head, self.memory_head):
            nn.init.orthogonal_(head.weight[:num_actions], 0.01)
            nn.init.orthogonal_(head.weight[num_actions:], 1.0)
        self.memory = config.memory

    def initial_state(self, num_envs: int) -> Tensor:
        return self.memory_head.weight.new_zeros(num_envs, self.memory)

    def unroll(self, obs: Mapping[str, Tensor], state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Policy.unroll`; `image` is uint8 `[T, B, 7, 7, 3]`."""
        image = obs["image"].flatten(0, 1)
        if len(starts) == 1:  # acting: too few to be worth the search for equal ones
            first = inverse = torch.arange(len(image), device=image.device)
        else:
            first, inverse = distinct(image)
        x = self.torso(image[round_up(first)])
        heads = self.view_head(x).index_select(0, inverse).unflatten(0, starts.shape)
        memory = self.core(self.core.gates(x), inverse.view(starts.shape), state, starts)
        logits_and_value = heads + self.memory_head(memory)
        return *logits_and_value.tensor_split((self.num_actions,), dim=-1), memory[-1]


def sample(log_probs: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw an index int64 `[B]` by each row of log-probabilities `[B, A]`: the inverse of the distribution function."""
    cumulative = log_probs.exp().cumsum(dim=-1)
    uniform = torch.rand(len(log_probs), 1, generator=generator, device=log_probs.device)
    # Rounding may leave the sum of all just below 1.
    return (cumulative <= uniform).sum(dim=-1).clamp_(max=log_probs.shape[-1] - 1)
