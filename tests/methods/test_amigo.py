"""AMIGo: what is paid, what the teacher earns, and that it learns, against bonuses worked out by hand."""

import copy
import dataclasses
import math
import random

import pytest
import torch

from bebold.config import AMIGoConfig
from bebold.errors import UsageError
from bebold.methods import amigo
from bebold.methods.amigo import GoalNovelty, Teacher, goal_reward, reached, step_bonus
from bebold.methods.build import build_guide, build_intrinsic
from bebold.methods.intrinsic import IntrinsicReward
from bebold.optimise import Peers

WALL, DOOR, AGENT = 2, 4, 10
SHAPE = (5, 4, 3)


def make(peers=None, shape=SHAPE, **settings):
    torch.manual_seed(0)
    return GoalNovelty(Teacher(shape), AMIGoConfig(**settings), max_steps=100, peers=peers)


def column(*values, dtype=None):
    return torch.tensor(values, dtype=dtype)[:, None]


def cell(x, y):
    return x * SHAPE[1] + y


def outcomes_of(rollout_of, grid, goal, steps, was_reached, solved=False):
    """A rollout of one step in which N goals end after so many steps: reached, or given up as the episode ends, which
    it does with or without the task solved."""
    after = grid.clone()
    changed = after.flatten(1, 2)
    rows = torch.arange(len(grid))[was_reached]
    changed[rows, goal[was_reached], 0] = changed[rows, goal[was_reached], 0] % 10 + 1
    zeros = torch.zeros_like(goal)
    rollout = rollout_of(
        grid=torch.stack((grid, after)),
        goal=torch.stack((goal, zeros)),
        goal_age=torch.stack((steps - 1, zeros)),
        goal_grid=torch.stack((grid, grid)),
        starts=torch.zeros(2, len(grid), dtype=torch.bool),
    )
    earned = torch.full((1, len(grid)), 0.5 if solved else 0.0)
    return dataclasses.replace(rollout, truncated=~was_reached[None], reward=earned)


def random_grids(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randint(1, high, (n, *SHAPE[:2]), generator=generator) for high in (11, 6, 4)]
    return torch.stack(parts, dim=-1).to(torch.uint8)


@pytest.mark.parametrize(
    ("was_reached", "step", "reward", "expected"),
    [
        (False, 10, 0.0, 0.0),
        (True, 10, 0.0, 1 - 0.9 * 0.1),
        (True, 100, 0.0, 0.1),
        (False, 10, 0.91, 1.91 - 0.91),  # r_e + 1
        (True, 10, 0.91, 2.0 - 0.91),  # r_e + g is clamped to 1, and 1 more
        (True, 10, -1.0, 0.91),
        (False, 10, -1.0, 0.0),
    ],
)
def test_with_the_reward_of_the_task_the_bonus_is_the_paper_s(was_reached, step, reward, expected):
    g = goal_reward(torch.tensor(was_reached), torch.tensor(step), 100)
    bonus = step_bonus(g, torch.tensor(reward))
    assert bonus.item() == pytest.approx(expected, abs=1e-6)


def test_reached_is_any_change_of_the_goal_s_own_cell():
    before = torch.zeros(6, *SHAPE, dtype=torch.uint8)
    after = before.clone()
    after[0, 2, 1, 0] = AGENT
    after[1, 2, 1, 1] = 1
    after[2, 2, 1, 2] = 1
    after[3, 1, 2] = 1  # x and y exchanged
    after[4, 2, 2] = 1
    assert reached(before, after, torch.full((6,), cell(2, 1))).tolist() == [True, True, True, False, False, False]


def test_the_bonus_of_a_rollout_by_hand(rollout_of):
    """One environment. The second step reaches its goal, the fourth ends the episode by solving the task and reaches
    another; the step that only resets changes the goal's cell, and the first of the next episode reaches a goal."""
    places = [(1, 1), (2, 1), (3, 1), (3, 1), (3, 2), (1, 1), (1, 2)]
    grid = torch.ones(7, 1, *SHAPE, dtype=torch.uint8)
    for t, place in enumerate(places):
        grid[t, 0][(*place, 0)] = AGENT
    rollout = rollout_of(
        grid=grid,
        goal=column(cell(3, 1), cell(3, 1), cell(3, 2), cell(3, 2), cell(3, 2), cell(1, 2), cell(4, 3)),
        goal_age=column(5, 6, 0, 1, 0, 0, 0),
        goal_grid=grid[[0, 0, 2, 2, 4, 5, 6]],
        starts=column(False, False, False, False, False, True, False),
    )
    terminated = column(False, False, False, True, False, False)
    rollout = dataclasses.replace(rollout, terminated=terminated, reward=0.811 * terminated.float())
    goals = make(batch=3)
    intrinsic = IntrinsicReward(goals)
    bonus = intrinsic.reward(rollout)
    assert bonus.dtype == torch.float32
    first, third = 1 - 0.9 * 7 / 100, 1 - 0.9 * 1 / 100
    expected = column(0.0, first, 0.0, 2 - 0.811, 0.0, third)
    torch.testing.assert_close(bonus, expected)
    # The three goals that ended, on what they were set, and how.
    grids, outcome = goals._finished(rollout)
    assert outcome.tolist() == [[cell(3, 1), 7, 1, 0], [cell(3, 2), 2, 1, 1], [cell(1, 2), 1, 1, 0]]
    assert torch.equal(grids, grid[[0, 2, 5], 0])
    stats = intrinsic.update(rollout)
    second = 1 - 0.9 * 2 / 100
    assert stats["intrinsic/reward_mean"] == pytest.approx((first + second + third) / 5)  # without that of solving
    assert stats["intrinsic/goals_reached"] == 1.0
    assert stats["intrinsic/goal_steps"] == pytest.approx(10 / 3)
    assert stats["intrinsic/teacher_reward"] == pytest.approx((0.7 + 1.0 - 0.3) / 3)


def test_what_the_teacher_earns():
    goals = make(threshold=7)
    steps, was_reached = torch.tensor([6, 7, 50, 50, 3]), torch.tensor([True, True, True, False, False])
    torch.testing.assert_close(goals.goal_quality(steps, was_reached), torch.tensor([-0.3, 0.7, 0.7, -0.3, -0.3]))
    goals.threshold = 8
    torch.testing.assert_close(goals.goal_quality(steps, was_reached), torch.tensor([-0.3, -0.3, 0.7, -0.3, -0.3]))


def test_solving_the_task_is_no_failure_of_the_goal_and_makes_no_batch_good(rollout_of):
    goals = make(batch=10, good_batches=1, threshold=7)
    missed = torch.zeros(10, dtype=torch.bool)
    case = random_grids(10), torch.arange(10), torch.full((10,), 20), missed
    assert goals.update(outcomes_of(rollout_of, *case))["intrinsic/teacher_reward"] == pytest.approx(-0.3)
    stats = goals.update(outcomes_of(rollout_of, *case, solved=True))
    assert stats["intrinsic/teacher_reward"] == pytest.approx(1.0)
    assert stats["intrinsic/goals_reached"] == 0.0
    assert goals.threshold == 7
    goals.update(outcomes_of(rollout_of, *case[:3], ~missed, solved=True))
    assert goals.threshold == 8
    judged = make(batch=10, solved_reward=None).update(outcomes_of(rollout_of, *case, solved=True))
    assert judged["intrinsic/teacher_reward"] == pytest.approx(-0.3)


def test_goals_get_harder_after_good_batches_in_a_row(rollout_of):
    goals = make(batch=10, good_batches=3, threshold=7)
    grid, goal = random_grids(10), torch.arange(10)
    thresholds = []
    # Of ten goals so many were reached in seven steps: four earn 0.7 · 4 - 0.3 · 6 = 1 together, two lose 1.
    for difficult in (4, 4, 2, 4, 4, 10, 10, 10, 10):
        was_reached = torch.arange(10) < difficult
        goals.update(outcomes_of(rollout_of, grid, goal, torch.full((10,), 7), was_reached))
        thresholds.append(goals.threshold)
    # Seven steps are too few once t* is eight.
    assert thresholds == [7, 7, 7, 7, 7, 8, 8, 8, 8]
    for _ in range(3):
        goals.update(outcomes_of(rollout_of, grid, goal, torch.full((10,), 8), torch.ones(10, dtype=torch.bool)))
    assert goals.threshold == 9


def test_goals_wait_until_there_are_enough_and_teach_one_step(rollout_of, monkeypatch):
    goals = make(batch=8)
    learnt = []
    goals._learn = lambda grid, outcome: learnt.append((grid, outcome)) or {}
    grid, goal = random_grids(49), torch.arange(49) % 20
    steps, was_reached = torch.arange(49) + 1, torch.arange(49) % 3 == 0
    expected = torch.stack((goal, steps, was_reached.long(), torch.zeros_like(goal)), dim=1)
    monkeypatch.setattr(amigo, "MOST", 20)
    for part in (slice(0, 5), slice(5, 10), slice(10, 10), slice(10, 29), slice(29, 32), slice(32, 49)):
        goals.update(outcomes_of(rollout_of, grid[part], goal[part], steps[part], was_reached[part]))
    assert len(learnt) == 3
    for (grids, outcome), part in zip(learnt, (slice(0, 10), slice(10, 29), slice(29, 49)), strict=True):
        assert torch.equal(grids, grid[part]) and torch.equal(outcome, expected[part])
    monkeypatch.setattr(amigo, "MOST", 19)  # of twenty every second one
    goals.update(outcomes_of(rollout_of, grid[29:], goal[29:], steps[29:], was_reached[29:]))
    assert torch.equal(learnt[-1][1], expected[29::2])


def test_loss_is_the_literal_one():
    goals = make(entropy=0.1, value_loss=0.7)
    grid, goal, reward = random_grids(4), torch.tensor([3, 0, 19, 7]), torch.tensor([0.7, -0.3, -0.3, 0.7])
    torch.nn.init.normal_(goals.teacher.choice.weight)
    logits, value = goals.teacher(grid)
    loss, _ = goals.loss(grid, goal, reward)
    for n in range(4):
        weights = [math.exp(x) for x in logits[n].tolist()]
        probs = [w / sum(weights) for w in weights]
        error = float(reward[n]) - value[n].item()
        entropy = -sum(p * math.log(p) for p in probs)
        expected = -math.log(probs[goal[n]]) * error + 0.7 * 0.5 * error**2 - 0.1 * entropy
        assert loss[n].item() == pytest.approx(expected, rel=1e-4)
    # The baseline is not trained by the policy's part.
    (gradient,) = torch.autograd.grad(loss.sum(), goals.teacher.value.bias)
    assert gradient.item() == pytest.approx(-0.7 * (reward - value).sum().item(), rel=1e-4)


def test_the_teacher_sees_what_is_there():
    """The logit of a cell depends on its surroundings, the agent's direction included, and on the place of things."""
    teacher = make().teacher
    grid = random_grids(1)
    logits, _ = teacher(grid)
    assert logits.shape == (1, 20)
    for part, value in ((0, AGENT), (1, 0), (2, 0)):
        changed = grid.clone()
        changed[0, 2, 1, part] = value
        assert not torch.equal(teacher(changed)[0][0, cell(2, 1)], logits[0, cell(2, 1)])


def test_the_teacher_learns_to_set_goals_in_the_one_place_that_pays(rollout_of):
    """Goals left of a wall are reached in time, goals right of it never."""
    goals = make(batch=150, learning_rate=3e-3)
    grid = torch.ones(150, *SHAPE, dtype=torch.uint8)
    grid[:, 2, :, 0] = WALL
    generator = torch.Generator().manual_seed(0)
    starts, left = torch.ones(150, dtype=torch.bool), torch.arange(20) < cell(2, 0)
    for _ in range(150):
        goal = goals.teacher.observe({"grid": grid}, starts, {}, generator=generator)["goal"]
        goals.update(outcomes_of(rollout_of, grid, goal, torch.full((150,), 9), left[goal]))
        goals.threshold = 7
    logits, value = goals.teacher(grid[:1])
    assert logits.softmax(dim=1)[0, left].sum() > 0.95
    assert value.item() == pytest.approx(0.7, abs=0.1)


def test_the_workers_share_a_batch(rollout_of):
    """The mean of their gradients is that of one worker who learns from all goals."""

    class Recording(Peers):
        def __init__(self, rank, size):
            self.rank, self.size, self.buffer = rank, size, None

        def average_(self, tensor):
            self.buffer = tensor.clone()

    peers = [Recording(0, 1), *(Recording(rank, 3) for rank in range(3))]
    rollout = outcomes_of(
        rollout_of, random_grids(20), torch.arange(20), torch.arange(20) + 1, torch.arange(20) % 2 == 0
    )
    for one in peers:
        make(one, batch=20).update(rollout)
    alone, *shared = (one.buffer for one in peers)
    torch.testing.assert_close(sum(shared) / 3, alone)


def test_state_goes_on_where_it_was(rollout_of, tmp_path):
    rollouts = [
        outcomes_of(
            rollout_of, random_grids(7, seed), torch.randint(20, (7,)), torch.randint(1, 20, (7,)), torch.rand(7) < 0.7
        )
        for seed in range(6)
    ]
    one, other = make(batch=5, good_batches=2), make(batch=5, good_batches=2)
    for rollout in rollouts[:3]:
        one.update(rollout)
    torch.save(one.state_dict(), tmp_path / "state")
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    for rollout in rollouts[3:]:
        assert one.update(rollout) == other.update(rollout)
    assert (one.threshold, one.streak) == (other.threshold, other.streak)


@pytest.mark.parametrize("change", ["cell", "grid", "count"])
def test_damaged_goals_that_wait_are_refused(change, rollout_of):
    goals = make(batch=150)
    goals.update(outcomes_of(rollout_of, random_grids(7), torch.arange(7), torch.arange(7) + 1, torch.arange(7) < 4))
    state = copy.deepcopy(goals.state_dict())
    grid, outcome = state["_extra_state"]["waiting"]
    if change == "cell":
        outcome[3, 0] = 20
    elif change == "grid":
        grid = grid[:, :-1]
    else:
        outcome = outcome[:-1]
    state["_extra_state"]["waiting"] = grid, outcome
    with pytest.raises(ValueError, match="not of a grid of 20 cells"):
        goals.load_state_dict(state)


def test_goals_are_drawn_as_the_teacher_says_or_the_likeliest_is_taken():
    teacher = make().teacher
    torch.nn.init.normal_(teacher.choice.weight, std=0.3)
    grid, starts = random_grids(1).expand(4000, *SHAPE), torch.ones(4000, dtype=torch.bool)
    probs = teacher(grid[:1])[0][0].softmax(dim=0).detach()
    drawn = teacher.observe({"grid": grid}, starts, {}, generator=torch.Generator().manual_seed(0))["goal"]
    share = torch.bincount(drawn, minlength=20) / 4000
    assert ((share - probs).abs() < 4.5 * (probs / 4000).sqrt() + 1e-3).all()
    assert (teacher.observe({"grid": grid}, starts, {}, greedy=True)["goal"] == probs.argmax()).all()


def test_goals_last_until_they_are_reached_or_the_episode_is_over():
    """Against a plain loop over each environment, on grids in which things change at random."""
    teacher = make().teacher
    generator, chance = torch.Generator().manual_seed(0), random.Random(0)
    num_envs, shown = 3, {}
    kept = [{} for _ in range(num_envs)]
    grid = random_grids(num_envs)
    reasons = {"start": 0, "reached": 0, "neither": 0}
    for t in range(80):
        starts = torch.tensor([t == 0 or chance.random() < 0.1 for _ in range(num_envs)])
        before, grid = grid, grid.clone()
        for b in range(num_envs):
            for _ in range(4):
                grid[b, chance.randrange(5), chance.randrange(4), chance.randrange(3)] = chance.randrange(4)
        last, shown = shown, {"grid": grid}
        shown |= teacher.observe(shown, starts, last, generator=generator)
        assert shown.keys() == teacher.needs | teacher.gives
        for b in range(num_envs):
            place = divmod(kept[b].get("goal", 0), SHAPE[1])
            if starts[b]:
                reason = "start"
            else:
                reason = "neither" if before[b][place].tolist() == grid[b][place].tolist() else "reached"
            reasons[reason] += 1
            if reason == "neither":
                kept[b]["age"] += 1
                assert shown["goal"][b] == kept[b]["goal"]
            else:
                kept[b] |= {"age": 0, "goal": int(shown["goal"][b]), "grid": grid[b].clone()}
            assert shown["goal_age"][b] == kept[b]["age"]
            assert torch.equal(shown["goal_grid"][b], kept[b]["grid"])
    assert min(reasons.values()) > 10


def test_it_is_built_with_what_it_needs_or_refused():
    shapes = {"image": (7, 7, 3), "grid": SHAPE}
    guide = build_guide("amigo", obs_shapes=shapes, seed=1)
    goals = build_intrinsic("amigo", obs_shapes=shapes, max_steps=10, guide=guide)
    assert goals.novelty.teacher is guide
    state = torch.get_rng_state()
    own = build_intrinsic("amigo", obs_shapes=shapes, max_steps=10, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(own.parameters(), goals.parameters(), strict=True))
    assert build_guide("bebold", obs_shapes=shapes) is None
    with pytest.raises(UsageError, match=r"reads 'grid', and the environment shows image: .*full_grid=True"):
        build_guide("amigo", obs_shapes={"image": (7, 7, 3)})
    with pytest.raises(UsageError, match="give max_steps"):
        build_intrinsic("amigo", obs_shapes=shapes)
