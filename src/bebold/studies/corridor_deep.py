"""The corridor study with networks: a Q-network on RND's novelty, many runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bebold.errors import UsageError
from bebold.jit import jit
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
    learners, walk = Learners(maze, networks, seeds), Walk(maze, setting, seeds)
    for begin in range(0, setting.episodes * setting.length, networks.interval):
        q, n = learners()
        steps = walk.go(q.detach(), min(networks.interval, setting.episodes * setting.length - begin))
        learners.update(q, n, steps, setting)
    return walk.explorations()


class Learners(nn.Module):
    """`R` Q-networks and their RNDs, one pair a seed, and their optimisers."""

    def __init__(self, maze: Maze, networks: NetworkSetting, seeds: Sequence[int]):
        super().__init__()
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.q_net = Stack(maze.size, networks.q_hidden, 1, len(maze.lengths), generators)
        self.novelty = Novelty(maze.size, networks, generators)
        self.optimisers = (
            torch.optim.Adam(self.q_net.parameters(), networks.q_rate, fused=True),
            torch.optim.Adam(self.novelty.predictor.parameters(), networks.rnd_rate, fused=True),
        )

    def forward(self) -> tuple[Tensor, Tensor]:
        """Q `[R, S, K]` and n `[R, S]` of every cell."""
        return self.q_net(), self.novelty()

    def update(self, q: Tensor, n: Tensor, steps: Steps, setting: Setting) -> tuple[Tensor, Tensor]:
        """One step of Adam on both losses of `steps`, which are returned, each `[R]`; `q` and `n` as by `forward`."""
        losses = (
            q_loss(q, steps, bonuses(n.detach(), steps, setting), setting.discount),
            n.gather(1, steps.s_next).mean(dim=1),
        )
        for optimiser, loss in zip(self.optimisers, losses, strict=True):
            optimiser.zero_grad()
            loss.sum().backward()  # a sum over runs: none changes the gradient of another
            optimiser.step()
        return losses


@dataclass(frozen=True)
class Steps:
    """`T` steps of `R` runs, each `[R, T]`."""

    s: Tensor
    action: Tensor
    s_next: Tensor
    first: Tensor
    """bool: the first visit of `s_next` in its episode."""
    terminated: Tensor


def bonuses(n: Tensor, steps: Steps, setting: Setting) -> Tensor:
    """n(s'), or n(s') - n(s), of every step, `[R, T]`; 0 where only first visits are paid and this is none."""
    bonus = n.gather(1, steps.s_next) - setting.difference * n.gather(1, steps.s)
    return bonus * steps.first if setting.episodic else bonus


def q_loss(q: Tensor, steps: Steps, bonus: Tensor, discount: float) -> Tensor:
    """Mean of (Q(s, a) - (r + γ max Q(s', ·)))², `[R]`; `q [R, S, K]`. Nothing follows a termination."""
    after = q.detach().amax(dim=2).gather(1, steps.s_next) * ~steps.terminated
    taken = q.flatten(1).gather(1, steps.s * q.shape[2] + steps.action)
    return (taken - bonus - discount * after).square().mean(dim=1)


class Walk:
    """`R` agents in the maze, and what is kept of their ways."""

    def __init__(self, maze: Maze, setting: Setting, seeds: Sequence[int]):
        self.maze, self.setting = maze, setting
        self.draws = [np.random.default_rng(seed) for seed in seeds]
        runs, kinds = len(seeds), len(maze.lengths)
        self.done = 0
        self.s = np.zeros(runs, np.int64)
        self.over = np.ones(runs, bool)
        self.visited = np.zeros((runs, maze.size), bool)
        self.cells = np.zeros((runs, maze.size), np.int64)
        self.entries = np.zeros((runs, kinds), np.int64)
        self.curve = np.zeros((runs, setting.episodes, kinds), np.int64)

    def go(self, q: Tensor, steps: int) -> Steps:
        """So many steps by softmax(`q [R, S, K]` / temperature)."""
        policy = torch.softmax(q.double() / self.setting.temperature, dim=-1).numpy()
        policy = (1 - self.setting.epsilon) * policy + self.setting.epsilon / policy.shape[-1]
        ending = np.zeros(self.maze.size, bool)
        ending[self.maze.last] = self.setting.ends
        went = _walk(
            self.maze.successor,
            self.maze.corridor,
            ending,
            self.setting.length,
            self.setting.ends,
            policy,
            np.stack([draws.random(steps) for draws in self.draws]),
            self.done,
            (self.s, self.over, self.visited),
            (self.cells, self.entries, self.curve),
        )
        self.done += steps
        return Steps(*map(torch.from_numpy, went))

    def explorations(self) -> list[Exploration]:
        """One a run."""
        curves = self.curve.cumsum(axis=1)
        return [Exploration(*entries) for entries in zip(self.cells, self.entries, curves, strict=True)]


@jit
def _walk(
    successor: Any,
    corridor: Any,
    ending: Any,
    length: int,
    ends: bool,
    policy: Any,
    uniforms: Any,
    done: int,
    state: Any,
    kept: Any,
) -> tuple[Any, ...]:
    """Take `T` steps in `R` runs, `uniforms [R, T]`, after `done` others; returns the entries of `Steps`.

    `state` (s, over, visited) and `kept` (cells, entries, arrivals in each block of steps) are changed. Blocks have
    `length` steps, and so have episodes, unless they end at corridors' `ends`.
    """
    s, over, visited = state
    cells, entries, blocks = kept
    shape = uniforms.shape
    before, actions, after = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, np.int64)
    first, terminated = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    for r in range(shape[0]):
        for t in range(shape[1]):
            if over[r] or (not ends and (done + t) % length == 0):
                s[r] = 0
                visited[r] = False
                visited[r, 0] = True
            action = min(int((np.cumsum(policy[r, s[r]]) < uniforms[r, t]).sum()), successor.shape[1] - 1)
            s_next = successor[s[r], action]
            before[r, t], actions[r, t], after[r, t] = s[r], action, s_next
            first[r, t], terminated[r, t] = not visited[r, s_next], ending[s_next]
            visited[r, s_next] = True
            cells[r, s_next] += 1
            if s[r] == 0:
                entries[r, action] += 1
            if s_next > 0:
                blocks[r, (done + t) // length, corridor[s_next]] += 1
            s[r], over[r] = s_next, ending[s_next]
    return before, actions, after, first, terminated
