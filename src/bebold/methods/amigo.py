"""AMIGo (Campero et al. 2021): a teacher sets goals neither too easy nor too hard, and reaching one is paid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bebold.config import AMIGoConfig
from bebold.encoding import CellEmbedding
from bebold.guide import Guide
from bebold.methods.novelty import Novelty
from bebold.optimise import Optimiser, Peers
from bebold.products import round_up
from bebold.rollout import Rollout

CHANNELS = 16
OUTCOME = 4
"""Numbers that are kept of a goal that ended."""
FEW = 8
"""Goals are set so many at a time, or a multiple of it: see `round_up`."""
MOST = 1024
"""Goals that one step learns from, evenly spread among all: more would be slow and teach little more."""


def reached(before: Tensor, after: Tensor, goal: Tensor) -> Tensor:
    """Whether the goal's cell changed, bool `[...]`: its object, colour or state. The agent is an object too.

    Parameters
    ----------
    before, after : the whole grid, uint8 `[..., W, H, 3]`
    goal : int64 `[...]`, the cell x·H + y
    """
    index = goal[..., None, None].expand(*goal.shape, 1, 3)
    cells = (grid.flatten(-3, -2).gather(-2, index).squeeze(-2) for grid in (before, after))
    return torch.ne(*cells).any(dim=-1)


def goal_reward(reached: Tensor, steps: Tensor, max_steps: int) -> Tensor:
    """g = 1 - 0.9 t/T where the goal is reached, else 0; `[...]`. `steps`: t, since it was set, this one included."""
    return torch.where(reached, 1 - 0.9 * steps / max_steps, 0.0)


def step_bonus(g: Tensor, reward: Tensor) -> Tensor:
    """min(max(r_e + g, -1), 1) + 1{r_e > 0} - r_e, all `[...]`.

    With r_e it adds up to what AMIGo's student learns from: r_e + g clamped to ±1, and 1 more for solving the task. It
    does so exactly where the learner takes r_e as it is, β is 1, and the sum is not clamped once more.

    Parameters
    ----------
    g : see `goal_reward`
    reward : r_e, unscaled
    """
    return (reward + g).clamp(-1, 1) + (reward > 0).float() - reward


class Teacher(Guide):
    """Sets the goals: four convolutions over the embedded grid give each cell's logit.

    A goal is set when an episode begins and whenever one is reached, and stays until then.

    Parameters
    ----------
    grid_shape : `(W, H, 3)`
    """

    needs = frozenset({"grid"})
    gives = frozenset({"goal", "goal_age", "goal_grid"})

    def __init__(self, grid_shape: tuple[int, ...]):
        super().__init__()
        self.grid_shape = tuple(grid_shape)
        self.num_cells = grid_shape[0] * grid_shape[1]
        self.embedding = CellEmbedding()
        self.features = nn.Sequential(
            nn.Conv2d(CellEmbedding.WIDTH, CHANNELS, 3, padding=1),
            nn.ELU(),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
            nn.ELU(),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
            nn.ELU(),
        )
        self.choice = nn.Conv2d(CHANNELS, 1, 3, padding=1)
        nn.init.orthogonal_(self.choice.weight, 0.01)  # all cells about alike at first
        self.value = nn.Linear(CHANNELS, 1)

    def forward(self, grid: Tensor) -> tuple[Tensor, Tensor]:
        """Logits float32 `[N, W·H]` of the cells, and the reward to expect, `[N]`, of grids uint8 `[N, W, H, 3]`."""
        x = self.features(self.embedding(grid).permute(0, 3, 1, 2))
        return self.choice(x).flatten(1), self.value(x.mean(dim=(2, 3))).squeeze(1)

    @torch.no_grad()
    def observe(
        self,
        obs: Mapping[str, Tensor],
        starts: Tensor,
        last: Mapping[str, Tensor],
        *,
        greedy: bool = False,
        generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """The goals of `B` environments, see `Guide.observe`.

        Returns
        -------
        goal : int64 `[B]`, the cell x·H + y
        goal_age : int64 `[B]`, steps since it was set
        goal_grid : uint8 `[B, W, H, 3]`, the grid on which it was set
        """
        grid = obs["grid"]
        if not last:
            zero = torch.zeros(len(grid), dtype=torch.int64)
            last = {"grid": grid, "goal": zero, "goal_age": zero, "goal_grid": grid}
        new = starts | reached(last["grid"], grid, last["goal"])
        rows = new.nonzero().squeeze(1)
        goal, goal_grid = last["goal"].clone(), last["goal_grid"].clone()
        if len(rows):
            goal_grid[rows] = grid[rows]
            goal[rows] = self._choose(grid[rows], greedy, generator)
        return {
            "goal": goal,
            "goal_age": torch.where(new, 0, last["goal_age"] + 1),
            "goal_grid": goal_grid,
        }

    def _choose(self, grid: Tensor, greedy: bool, generator: torch.Generator | None) -> Tensor:
        padded = round_up(torch.arange(len(grid)), FEW)  # most steps set a handful of goals
        logits, _ = self(grid[padded].to(self.value.weight.device))
        logits = logits[: len(grid)]
        if greedy:
            return logits.argmax(dim=1).cpu()
        return logits.softmax(dim=1).multinomial(1, generator=generator).squeeze(1).cpu()

    def check(self, shown: Mapping[str, Tensor]) -> None:
        """Refuse goals outside of the grid and times before the beginning (`ValueError`)."""
        goal = shown["goal"]
        if not ((goal >= 0) & (goal < self.num_cells)).all():
            raise ValueError(f"a saved goal is none of the {self.num_cells} cells of the grid")
        if shown["goal_age"].min() < 0:
            raise ValueError("a saved goal was set after the present step")


class GoalNovelty(Novelty):
    """Pays the student for goals (`step_bonus`), and teaches the teacher which ones to set.

    The teacher earns `reward` for a goal that was reached in t* steps or more, and loses `penalty` for one that was
    reached sooner or not by the end of the episode; but it earns `solved_reward` if the task was solved meanwhile. It
    learns by policy gradient, with its value as a baseline and an entropy bonus, from the goals that came to an end:
    one step a rollout, once at least `batch` are together. Those of all workers are put together, and all workers take
    the same steps. t* rises by one after `good_batches` good ones in a row. When a batch is good, our sources do not
    say: here, when its mean reward exceeds `good_reward`, solving left out of account.

    `state_dict()` holds all there is to save, the goals that wait for their batch to fill up included.

    Parameters
    ----------
    teacher : the guide of the policy that acts
    max_steps : T, the task's time limit
    """

    kind = "transition"
    needs = Teacher.needs | Teacher.gives
    informative = False

    def __init__(
        self, teacher: Teacher, config: AMIGoConfig | None = None, *, max_steps: int, peers: Peers | None = None
    ):
        super().__init__()
        self.teacher = teacher
        self.config = config = config or AMIGoConfig()
        self.max_steps = max_steps
        self.peers = peers or Peers()
        self.optimiser = Optimiser(teacher.parameters(), learning_rate=config.learning_rate, peers=peers)
        self.threshold = config.threshold
        self.streak = 0
        self._waiting: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def measure(self, rollout: Rollout) -> Tensor:
        """float32 `[T, B]`."""
        return step_bonus(self._goal_reward(rollout), rollout.reward)

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Let the teacher learn from the goals that ended in this rollout; returns `intrinsic/*`.

        `reward_mean` is of g alone: what is paid for solving the task, beyond its reward, is none of the goals' doing.
        """
        steps = max(int(rollout.valid.sum()), 1)
        stats = {"intrinsic/reward_mean": float(self._goal_reward(rollout).sum()) / steps}
        grid, outcome = (self.peers.gather(x.cpu()) for x in self._finished(rollout))
        if len(outcome):
            stats |= _statistics(outcome)
        if self._waiting is not None:
            grid, outcome = (torch.cat(pair) for pair in zip(self._waiting, (grid, outcome), strict=True))
        if len(outcome) >= self.config.batch:
            # One step: the teacher that a second one would correct is no longer the one that set these goals.
            spread = torch.arange(0, len(outcome), -(-len(outcome) // MOST))
            stats |= self._learn(grid[spread], outcome[spread])
            grid, outcome = grid[:0], outcome[:0]
        self._waiting = grid, outcome
        return stats | {"intrinsic/goal_threshold": float(self.threshold)}

    def goal_quality(self, steps: Tensor, reached: Tensor) -> Tensor:
        """What the teacher earns for goals that ended after `steps`, float32 `[N]`, unless the task was solved."""
        return torch.where(reached & (steps >= self.threshold), self.config.reward, -self.config.penalty)

    def loss(self, grid: Tensor, goal: Tensor, reward: Tensor) -> tuple[Tensor, Tensor]:
        """The teacher's loss for each goal, and its entropy, both `[N]`."""
        logits, value = self.teacher(grid)
        log_probs = logits.log_softmax(dim=1)
        log_prob = log_probs.gather(1, goal[:, None]).squeeze(1)
        entropy = -(log_probs.exp() * log_probs).sum(dim=1)
        error = reward - value
        loss = -log_prob * error.detach() + self.config.value_loss * 0.5 * error.square()
        return loss - self.config.entropy * entropy, entropy.detach()

    def get_extra_state(self) -> dict[str, Any]:
        return {
            "optimiser": self.optimiser.state_dict(),
            "threshold": self.threshold,
            "streak": self.streak,
            "waiting": self._waiting,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.optimiser.load_state_dict(state["optimiser"])
        self.threshold, self.streak = int(state["threshold"]), int(state["streak"])
        self._waiting = None
        if state["waiting"] is not None:
            grid, outcome = state["waiting"]
            cells, shape = self.teacher.num_cells, (len(grid), *self.teacher.grid_shape)
            fits = (grid.shape, grid.dtype) == (shape, torch.uint8)
            fits = fits and (outcome.shape, outcome.dtype) == ((len(grid), OUTCOME), torch.int64)
            if not fits or not ((outcome[:, 0] >= 0) & (outcome[:, 0] < cells)).all():
                raise ValueError(f"the goals that wait in it are not of a grid of {cells} cells")
            self._waiting = grid, outcome

    def _reached(self, rollout: Rollout) -> Tensor:
        """Whether each step reached its goal, bool `[T, B]`."""
        grid = rollout.obs["grid"]
        return reached(grid[:-1], grid[1:], rollout.obs["goal"][:-1]) & rollout.valid

    def _goal_reward(self, rollout: Rollout) -> Tensor:
        """g of each step, float32 `[T, B]`."""
        return goal_reward(self._reached(rollout), rollout.obs["goal_age"][:-1] + 1, self.max_steps)

    def _finished(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """The goals that ended in this rollout: the grids on which they were set, uint8 `[N, W, H, 3]`, and int64
        `[N, 4]` of the cell, the steps it took, whether it was reached, and whether the task was solved with it."""
        was_reached = self._reached(rollout)
        ended = was_reached | (rollout.ended & rollout.valid)
        goal, age = (rollout.obs[name][:-1][ended] for name in ("goal", "goal_age"))
        solved = rollout.reward[ended] > 0
        outcome = torch.stack((goal, age + 1, was_reached[ended].long(), solved.long()), dim=1)
        return rollout.obs["goal_grid"][:-1][ended], outcome

    def _learn(self, grid: Tensor, outcome: Tensor) -> dict[str, float]:
        """One step on a batch, which is shared by the workers; then see whether the goals are to be harder."""
        config, device = self.config, self.teacher.value.weight.device
        goal, steps, was_reached, solved = outcome.unbind(dim=1)
        quality = self.goal_quality(steps, was_reached.bool())
        reward = quality if config.solved_reward is None else torch.where(solved.bool(), config.solved_reward, quality)
        mine = slice(self.peers.rank, None, self.peers.size)
        share = round_up(torch.arange(len(goal))[mine])
        loss, entropy = self.loss(grid[share].to(device), goal[share].to(device), reward[share].to(device))
        # Averaged over the workers, these are the means over the batch.
        shared = len(goal[mine])
        mean_loss, mean_entropy = (x[:shared].sum() * self.peers.size / len(goal) for x in (loss, entropy))
        self.optimiser.step(mean_loss)
        self.streak = self.streak + 1 if float(quality.mean()) > config.good_reward else 0
        if self.streak >= config.good_batches:
            self.threshold, self.streak = self.threshold + 1, 0
        return {
            "intrinsic/teacher_loss": float(mean_loss.detach()),
            "intrinsic/teacher_reward": float(reward.mean()),
            "intrinsic/teacher_entropy": float(mean_entropy),
        }


def _statistics(outcome: Tensor) -> dict[str, float]:
    """Of all goals that ended: how many were reached, and in how many steps."""
    _, steps, was_reached, _ = outcome.double().unbind(dim=1)
    count = float(was_reached.sum())
    return {
        "intrinsic/goals_reached": count / len(outcome),
        "intrinsic/goal_steps": float((steps * was_reached).sum()) / max(count, 1.0),
    }
