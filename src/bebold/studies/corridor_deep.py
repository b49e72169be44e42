"""The corridor study with networks: a Q-network on RND's novelty, many runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bebold.errors import UsageError
from bebold.methods.embedding import dense_layers
from bebold.studies.corridor import Exploration, Maze, Setting


@dataclass(frozen=True)
class NetworkSetting:
    """The networks and how they learn. The paper leaves all of it open; these are ours."""

    q_hidden: int = 64
    """Width of the Q-network's one hidden layer."""
    q_rate: float = 1e-3
    """Adam's step size of the Q-network."""
    rnd_hidden: int = 32
    """Width of RND's hidden layers: two in φ, three in φ' as in `RNDConfig`."""
    rnd_outputs: int = 32
    """Width of φ and φ'."""
    rnd_rate: float = 1e-3
    """Adam's step size of φ'."""
    interval: int = 60
    """Steps between one update of all networks and the next: a third of an episode."""


class Stack(nn.Module):
    """`R` networks of dense layers, one a run, that see a cell as a one-hot vector; asked of all `S` cells at once.

    Parameters
    ----------
    generators : one a run, for its first weights (`dense_layers`)
    """

    def __init__(self, cells: int, hidden: int, layers: int, outputs: int, generators: Sequence[torch.Generator]):
        super().__init__()
        nets = [dense_layers("raw", (cells,), hidden, layers, outputs, generator) for generator in generators]
        linears = [[layer for layer in net if isinstance(layer, nn.Linear)] for net in nets]
        self.weights = nn.ParameterList(
            torch.stack([one.weight.data.T for one in run]) for run in zip(*linears, strict=True)
        )
        self.biases = nn.ParameterList(
            torch.stack([one.bias.data[None] for one in run]) for run in zip(*linears, strict=True)
        )

    def forward(self) -> Tensor:
        """float32 `[R, S, outputs]`. A one-hot vector times a matrix is a row of it."""
        x = self.weights[0] + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            x = torch.baddbmm(bias, x.relu(), weight)
        return x


class Novelty(nn.Module):
    """n(s) = ‖φ(s) - φ'(s)‖₂ of every cell in every run, as `methods.rnd` has it: φ has unit norm, φ' starts at 0."""

    target: Tensor

    def __init__(self, cells: int, networks: NetworkSetting, generators: Sequence[torch.Generator]):
        super().__init__()
        hidden, outputs = networks.rnd_hidden, networks.rnd_outputs
        with torch.no_grad():
            phi = Stack(cells, hidden, 2, outputs, generators)()
            unit = nn.functional.normalize(phi - phi.mean(dim=-1, keepdim=True), dim=-1)
        self.register_buffer("target", unit)
        self.predictor = Stack(cells, hidden, 3, outputs, generators)
        nn.init.zeros_(self.predictor.weights[-1])

    def forward(self) -> Tensor:
        """float32 `[R, S]`."""
        return torch.linalg.vector_norm(self.target - self.predictor(), dim=-1)


def explore_with_networks(
    maze: Maze, setting: Setting, seeds: Sequence[int], networks: NetworkSetting | None = None
) -> list[Exploration]:
    """Q-learning by a network on RND's novelty n, or with `setting.difference` on n(s') - n(s); one run a seed.

    Every `interval` steps the bonus of these steps is read off, then the Q-network makes one step of Adam on their mean
    squared error of Q(s, a) - (r + γ max Q(s', ·)), and φ' one on its mean error at the cells that were reached.
    `setting.step_size` is not used. The runs share nothing but the processor.
    """
    if not setting.temperature > 0:
        raise UsageError("networks act by softmax(Q / temperature); give a temperature above 0")
    networks = networks or NetworkSetting()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    q_net = Stack(maze.size, networks.q_hidden, 1, len(maze.lengths), generators)
    novelty = Novelty(maze.size, networks, generators)
    optimisers = (
        torch.optim.Adam(q_net.parameters(), networks.q_rate, fused=True),
        torch.optim.Adam(novelty.predictor.parameters(), networks.rnd_rate, fused=True),
    )
    walk = _Walk(maze, setting, seeds)
    for begin in range(0, setting.episodes * setting.length, networks.interval):
        with torch.no_grad():
            q = q_net().double().numpy()
        n = novelty()
        steps = walk.go(q, min(networks.interval, setting.episodes * setting.length - begin))
        bonus = n.detach().gather(1, steps.s_next) - setting.difference * n.detach().gather(1, steps.s)
        if setting.episodic:
            bonus = bonus * steps.first
        q_loss, n_loss = _q_loss(q_net(), steps, bonus, setting.discount), n.gather(1, steps.s_next).mean(dim=1)
        for optimiser, loss in zip(optimisers, (q_loss, n_loss), strict=True):
            optimiser.zero_grad()
            loss.sum().backward()  # a sum over runs: none changes the gradient of another
            optimiser.step()
    return walk.explorations()


@dataclass(frozen=True)
class _Steps:
    """`T` steps of `R` runs, each `[R, T]`."""

    s: Tensor
    action: Tensor
    s_next: Tensor
    first: Tensor
    """bool: the first visit of `s_next` in its episode."""
    terminated: Tensor


def _q_loss(q: Tensor, steps: _Steps, bonus: Tensor, discount: float) -> Tensor:
    """Mean of (Q(s, a) - (r + γ max Q(s', ·)))², `[R]`; `q [R, S, K]`. Nothing follows a termination."""
    after = q.detach().amax(dim=2).gather(1, steps.s_next) * ~steps.terminated
    taken = q.flatten(1).gather(1, steps.s * q.shape[2] + steps.action)
    return (taken - bonus - discount * after).square().mean(dim=1)


class _Walk:
    """`R` agents in the maze, and what is kept of their ways."""

    def __init__(self, maze: Maze, setting: Setting, seeds: Sequence[int]):
        self.maze, self.setting = maze, setting
        self.runs = np.arange(len(seeds))
        self.uniforms = [np.random.default_rng(seed) for seed in seeds]
        self.s = np.zeros(len(seeds), np.int64)
        self.over = np.ones(len(seeds), bool)
        self.visited = np.zeros((len(seeds), maze.size), bool)
        self.cells = np.zeros((len(seeds), maze.size), np.int64)
        self.entries = np.zeros((len(seeds), len(maze.lengths)), np.int64)
        self.curve: list[np.ndarray] = []
        self.done = 0

    def go(self, q: np.ndarray, steps: int) -> _Steps:
        """So many steps by softmax(`q [R, S, K]` / temperature)."""
        policy = torch.softmax(torch.from_numpy(q / self.setting.temperature), dim=-1).numpy()
        policy = (1 - self.setting.epsilon) * policy + self.setting.epsilon / policy.shape[-1]
        bounds = policy.cumsum(axis=-1)[:, :, :-1]
        draws = np.stack([uniforms.random(steps) for uniforms in self.uniforms], axis=1)
        taken = [self._step(bounds, u) for u in draws]
        return _Steps(*(torch.from_numpy(np.stack(every, axis=1)) for every in zip(*taken, strict=True)))

    def _step(self, bounds: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, ...]:
        if not self.setting.ends and self.done % self.setting.length == 0:
            self.over[:] = True
        self.s = np.where(self.over, 0, self.s)
        self.visited[self.over] = False
        self.visited[self.over, 0] = True
        s = self.s
        action = (bounds[self.runs, s] < u[:, None]).sum(axis=1)
        s_next = self.maze.successor[s, action]
        first = ~self.visited[self.runs, s_next]
        self.visited[self.runs, s_next] = True
        self.cells[self.runs, s_next] += 1
        self.entries[self.runs[s == 0], action[s == 0]] += 1
        self.over = self.setting.ends & np.isin(s_next, self.maze.last)
        self.s = s_next
        self.done += 1
        if self.done % self.setting.length == 0:
            self.curve.append(
                np.stack([self.cells[:, self.maze.corridor == j].sum(axis=1) for j in self.kinds], axis=1)
            )
        return s, action, s_next, first, self.over

    @property
    def kinds(self) -> range:
        return range(len(self.maze.lengths))

    def explorations(self) -> list[Exploration]:
        """One a run."""
        curves = np.stack(self.curve, axis=1)
        return [Exploration(*entries) for entries in zip(self.cells, self.entries, curves, strict=True)]
