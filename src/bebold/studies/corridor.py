"""The paper's toy environment of corridors, and tabular Q-learning on a bonus alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bebold.errors import UsageError
from bebold.jit import jit

LENGTHS = (40, 10, 30, 10)
"""Cells of the four corridors (BeBold, Section 5.2)."""
OUTSIDE = -1
"""The corridor that the start belongs to."""


class Maze:
    """Corridors that leave one start in different directions, each one cell wide and closed at its end.

    Cell 0 is the start; the cells of corridor `j` follow those of `j - 1`, from the start outwards. Action `j` steps in
    the direction of corridor `j`; the direction opposite to it leads back, and the others bump into a wall: the agent
    stays.

    Parameters
    ----------
    lengths : cells of each of the `K` corridors, without the start; four are a cross

    Raises
    ------
    UsageError : an odd number of corridors, which have no opposites, or one without a cell
    """

    def __init__(self, lengths: tuple[int, ...] = LENGTHS):
        if len(lengths) % 2 or not lengths or min(lengths) < 1:
            raise UsageError(f"corridors of lengths {lengths} make no maze; give an even number of lengths from 1 up")
        self.lengths = lengths
        self.last = np.cumsum(lengths)
        """int64 `[K]`: the cell at the end of each corridor."""
        self.first = self.last - np.asarray(lengths) + 1
        """int64 `[K]`: the cell of each corridor next to the start."""
        self.size = 1 + sum(lengths)
        """Cells, the start among them: `S`."""
        self.corridor = np.repeat([OUTSIDE, *range(len(lengths))], [1, *lengths])
        """int64 `[S]`: which corridor each cell belongs to."""
        self.successor = self._successors()
        """int64 `[S, K]`: the cell that each action leads to."""

    def _successors(self) -> np.ndarray:
        kinds = len(self.lengths)
        successor = np.repeat(np.arange(self.size)[:, None], kinds, axis=1)
        successor[0] = self.first
        for j, (first, last) in enumerate(zip(self.first, self.last, strict=True)):
            cells = np.arange(first, last + 1)
            successor[cells, j] = np.minimum(cells + 1, last)
            successor[cells, (j + kinds // 2) % kinds] = np.where(cells == first, 0, cells - 1)
        return successor


@dataclass(frozen=True)
class Setting:
    """A bonus, and how Q-learning lives on it. What the paper leaves open says so."""

    difference: bool
    """The bonus is n(s') - n(s), BeBold's without its clipping; else n(s')."""
    episodic: bool = False
    """Only an episode's first visit of s' is paid, as in BeBold's Eq. 2."""
    step_size: float = 0.1
    """α of Q-learning (open; ours: customary for tables. The paper's appendix names 0.01 as an example)."""
    discount: float = 0.99
    """γ (open; the paper's code for MiniGrid)."""
    temperature: float = 0.03
    """Actions are drawn from softmax(Q / temperature); 0: the best one (open; ours, sought on other seeds)."""
    epsilon: float = 0.0
    """Probability of an action drawn uniformly (open; ours)."""
    ends: bool = False
    """Episodes end at a corridor's end, as in the paper's appendix; else after `length` steps (open; only the latter
    can have made the paper's table: docs/corridor.md)."""
    episodes: int = 600
    """Of `length` steps each; together they are the budget of both readings (BeBold, Section 5.2)."""
    length: int = 180
    """Steps of an episode (open; 600 x 180 steps are the 108 K visits that the rows of the paper's table add up to)."""

    def __post_init__(self) -> None:
        whole = self.episodes >= 1 and self.length >= 1
        if not (whole and self.temperature >= 0 and 0 <= self.epsilon <= 1):
            raise UsageError(
                "a corridor study needs episodes and steps from 1 up, a temperature from 0 up and ε between 0 and 1"
            )


@dataclass(frozen=True)
class Exploration:
    """Where one run went. `episodes` are those of the setting, `length` steps each, also where episodes end sooner."""

    cells: np.ndarray
    """int64 `[S]`: steps that arrived at each cell. Being put to the start is no step."""
    entries: np.ndarray
    """int64 `[K]`: steps from the start into each corridor."""
    curve: np.ndarray
    """int64 `[episodes, K]`: arrivals in each corridor's cells up to the end of each episode."""

    @property
    def visits(self) -> np.ndarray:
        """int64 `[K]`: arrivals in each corridor's cells, which is what the paper's table counts."""
        return self.curve[-1]

    @property
    def found(self) -> int:
        """Cells other than the start that were reached."""
        return int(np.count_nonzero(self.cells[1:]))


def entropy(visits: np.ndarray) -> float:
    """-Σ p log₂ p in bits of `visits [K]`, made a distribution; 0 where nothing was visited."""
    share = visits[visits > 0] / max(visits.sum(), 1)
    return float(-(share * np.log2(share)).sum()) + 0.0


def explore(maze: Maze, setting: Setting, seed: int) -> Exploration:
    """Tabular Q-learning on the tabular bonus, n(s) = 1 / N(s), with N over the whole run and the arrival counted.

    Q starts at 0, equally good actions are equally likely, and all of it depends on the seed alone.
    """
    uniforms = np.random.default_rng(seed).random((setting.episodes, setting.length))
    ending = np.zeros(maze.size, bool)
    ending[maze.last] = setting.ends
    learner = (setting.step_size, setting.discount, setting.temperature, setting.epsilon)
    return Exploration(
        *_explore(
            maze.successor,
            maze.corridor,
            ending,
            setting.difference,
            setting.episodic,
            setting.ends,
            *learner,
            uniforms,
        )
    )


@jit
def _explore(
    successor: Any,
    corridor: Any,
    ending: Any,
    difference: bool,
    episodic: bool,
    ends: bool,
    step_size: float,
    discount: float,
    temperature: float,
    epsilon: float,
    uniforms: Any,
) -> tuple[Any, Any, Any]:
    """One run; `uniforms [episodes, length]` decide its actions. Returns the entries of `Exploration`."""
    size, kinds = successor.shape
    q = np.zeros((size, kinds))
    counts = np.zeros(size, np.int64)  # N, every observation
    arrivals = np.zeros(size, np.int64)
    entries = np.zeros(kinds, np.int64)
    curve = np.zeros((len(uniforms), kinds), np.int64)
    visited = np.full(size, -1)  # the last episode that saw a cell
    policy = np.zeros(kinds)
    episode, over, s = -1, True, 0
    for block in range(len(uniforms)):
        curve[block] = curve[max(block - 1, 0)]
        over = over or not ends
        for u in uniforms[block]:
            if over:
                episode, over, s = episode + 1, False, 0
                counts[0] += 1
                visited[0] = episode
            _policy(q[s], temperature, epsilon, policy)
            action = min(int((np.cumsum(policy) < u).sum()), kinds - 1)
            s_next = successor[s, action]
            counts[s_next] += 1
            arrivals[s_next] += 1
            bonus = 1.0 / counts[s_next] - (1.0 / counts[s] if difference else 0.0)
            if episodic and visited[s_next] == episode:
                bonus = 0.0
            visited[s_next] = episode
            over = ending[s_next]
            # A time-out is no end: what it cuts off keeps its value.
            target = bonus + (0.0 if over else discount * q[s_next].max())
            q[s, action] += step_size * (target - q[s, action])
            if s == 0:
                entries[action] += 1
            if s_next > 0:
                curve[block, corridor[s_next]] += 1
            s = s_next
    return arrivals, entries, curve


@jit
def _policy(q: Any, temperature: float, epsilon: float, policy: Any) -> None:
    """Write softmax(`q [K]` / temperature), mixed with a share ε of the uniform distribution, to `policy [K]`."""
    best = q.max()
    if temperature > 0:
        policy[:] = np.exp((q - best) / temperature)
    else:
        policy[:] = (q == best).astype(np.float64)
    policy[:] = (1 - epsilon) * policy / policy.sum() + epsilon / len(q)
