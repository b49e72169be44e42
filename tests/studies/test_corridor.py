"""The corridors, the learners on them, and the study's files."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
import scipy.stats
import torch

from bebold.cli import main
from bebold.errors import UsageError
from bebold.methods.embedding import dense_layers
from bebold.studies import STUDIES, corridor_study
from bebold.studies.corridor import LENGTHS, Maze, Setting, entropy, explore
from bebold.studies.corridor_deep import Learners, NetworkSetting, Novelty, Stack, Walk, bonuses, explore_with_networks
from bebold.studies.corridor_figure import WINDOW, shares

SETTINGS = [
    Setting(difference=difference, episodic=episodic, ends=ends, episodes=30, length=40)
    for difference in (False, True)
    for episodic in (False, True)
    for ends in (False, True)
]


def literal(lengths: tuple[int, ...], setting: Setting, uniforms: np.ndarray) -> tuple[dict, list[int]]:
    """Q-learning in a cross of corridors, on points of the plane, one line after the other of the definition."""
    directions = [(1, 0), (0, 1), (-1, 0), (0, -1)]
    points = {(0, 0)} | {(i * x, i * y) for n, (x, y) in zip(lengths, directions, strict=True) for i in range(1, n + 1)}
    ends = {(n * x, n * y) for n, (x, y) in zip(lengths, directions, strict=True)}
    q = {p: [0.0] * 4 for p in points}
    counts, arrivals, entries = dict.fromkeys(points, 0), dict.fromkeys(points, 0), [0] * 4
    at, over = (0, 0), True
    seen: set[tuple[int, int]] = set()
    for block in uniforms:
        over = over or not setting.ends
        for u in block:
            if over:
                at, over, seen = (0, 0), False, {(0, 0)}
                counts[at] += 1
            weights = np.exp((np.array(q[at]) - max(q[at])) / setting.temperature)
            policy = (1 - setting.epsilon) * weights / weights.sum() + setting.epsilon / 4
            action = next(a for a in range(4) if u <= sum(policy[: a + 1]) or a == 3)
            x, y = at[0] + directions[action][0], at[1] + directions[action][1]
            then = (x, y) if (x, y) in points else at
            counts[then] += 1
            arrivals[then] += 1
            entries[action] += at == (0, 0)
            bonus = 1 / counts[then] - (1 / counts[at] if setting.difference else 0)
            if setting.episodic and then in seen:
                bonus = 0
            seen.add(then)
            over = setting.ends and then in ends
            target = bonus if over else bonus + setting.discount * max(q[then])
            q[at][action] += setting.step_size * (target - q[at][action])
            at = then
    return arrivals, entries


def test_the_maze_by_hand() -> None:
    maze = Maze((2, 1, 1, 1))
    assert maze.size == 6
    assert maze.corridor.tolist() == [-1, 0, 0, 1, 2, 3]
    assert maze.successor.tolist() == [
        [1, 3, 4, 5],
        [2, 1, 0, 1],
        [2, 2, 1, 2],
        [3, 3, 3, 0],
        [0, 4, 4, 4],
        [5, 0, 5, 5],
    ]
    with pytest.raises(UsageError, match="even number"):
        Maze((4, 1, 2))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_tabular_learning_is_the_literal_one(setting: Setting, epsilon: float) -> None:
    setting = replace(setting, epsilon=epsilon)
    lengths = (7, 2, 5, 3)
    found = explore(Maze(lengths), setting, seed=3)
    arrivals, entries = literal(lengths, setting, np.random.default_rng(3).random((30, 40)))
    directions = [(1, 0), (0, 1), (-1, 0), (0, -1)]
    cells = [(0, 0)] + [(i * x, i * y) for n, (x, y) in zip(lengths, directions, strict=True) for i in range(1, n + 1)]
    assert found.cells.tolist() == [arrivals[cell] for cell in cells]
    assert found.entries.tolist() == entries
    assert found.cells.sum() == 30 * 40
    assert found.visits.tolist() == [found.cells[a:b].sum() for a, b in ((1, 8), (8, 10), (10, 15), (15, 18))]
    assert (np.diff(found.curve, axis=0) >= 0).all()


def test_greedy_ties_are_drawn_evenly() -> None:
    setting = Setting(difference=False, step_size=0, temperature=0, episodes=500, length=1)
    entries = explore(Maze(LENGTHS), setting, seed=5).entries
    assert scipy.stats.chisquare(entries).pvalue > 1e-3


def test_entropy_is_scipys() -> None:
    for visits in ([1, 1, 1, 1], [66, 8, 23, 13], [5, 0, 0, 0], [1, 0, 3, 0]):
        assert entropy(np.array(visits)) == pytest.approx(scipy.stats.entropy(visits, base=2), abs=1e-12)
    assert entropy(np.zeros(4, int)) == 0


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"epsilon": 1.5}, {"temperature": -1.0}, {"episodes": 0}):
        with pytest.raises(UsageError, match="corridor study needs"):
            Setting(difference=True, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="temperature above 0"):
        explore_with_networks(Maze(), Setting(difference=True, temperature=0), [1])


def test_stacked_networks_are_the_networks_one_by_one() -> None:
    stack = Stack(9, 8, 2, 5, [torch.Generator().manual_seed(s) for s in (1, 2, 3)])
    for run, seed in enumerate((1, 2, 3)):
        alone = dense_layers("raw", (9,), 8, 2, 5, torch.Generator().manual_seed(seed))
        torch.testing.assert_close(stack()[run], alone(torch.eye(9)))


def test_an_unseen_cell_has_novelty_one() -> None:
    generators = [torch.Generator().manual_seed(s) for s in (1, 2)]
    torch.testing.assert_close(Novelty(91, NetworkSetting(), generators)(), torch.ones(2, 91))


class Alone:
    """One run of `Learners` in double precision: a loop over its steps, and autograd on networks of its own."""

    def __init__(self, maze: Maze, setting: Setting, networks: NetworkSetting, seed: int):
        generator, self.cells = torch.Generator().manual_seed(seed), torch.eye(maze.size).double()

        def dense(hidden: int, layers: int, outputs: int) -> torch.nn.Sequential:
            net = dense_layers("raw", (maze.size,), hidden, layers, outputs, generator)
            return torch.nn.Sequential(*(x for x in net if isinstance(x, torch.nn.Linear | torch.nn.ReLU))).double()

        self.q = dense(networks.q_hidden, 1, len(maze.lengths))
        phi = dense(networks.rnd_hidden, 2, networks.rnd_outputs)(self.cells).detach()
        self.predictor = dense(networks.rnd_hidden, 3, networks.rnd_outputs)
        phi -= phi.mean(dim=1, keepdim=True)
        self.phi = phi / phi.square().sum(dim=1, keepdim=True).sqrt()
        self.optimisers = [
            torch.optim.Adam(self.q.parameters(), networks.q_rate),
            torch.optim.Adam(self.predictor.parameters(), networks.rnd_rate),
        ]
        self.ends, self.setting = set(maze.last.tolist()) if setting.ends else set(), setting
        self.time, self.over, self.seen = 0, True, {0}

    def update(self, way: list[tuple[int, int, int]]) -> tuple[list[float], float, float]:
        """Bonuses and both losses of a way of (s, a, s')."""
        bonus, squares, errors = [], [], []
        for s, action, then in way:
            if self.over or (not self.setting.ends and self.time % self.setting.length == 0):
                self.seen = {0}
                assert s == 0
            n = {cell: (self.phi[cell] - self.predictor(self.cells[cell])).square().sum().sqrt() for cell in (s, then)}
            paid = n[then].item() - (n[s].item() if self.setting.difference else 0)
            if self.setting.episodic and then in self.seen:
                paid = 0.0
            self.over = then in self.ends
            target = paid if self.over else paid + self.setting.discount * max(self.q(self.cells[then]).tolist())
            bonus.append(paid)
            squares.append((self.q(self.cells[s])[action] - target) ** 2)
            errors.append(n[then])
            self.seen.add(then)
            self.time += 1
        losses = [sum(squares) / len(way), sum(errors) / len(way)]
        for optimiser, loss in zip(self.optimisers, losses, strict=True):
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return bonus, losses[0].item(), losses[1].item()


@pytest.mark.parametrize("setting", [replace(s, temperature=0.5, length=9) for s in SETTINGS])
def test_two_updates_are_the_literal_ones(setting: Setting) -> None:
    maze, seeds = Maze((2, 1, 3, 1)), (4, 5)
    networks = NetworkSetting(q_hidden=6, rnd_hidden=5, rnd_outputs=4, q_rate=0.02, rnd_rate=0.03)
    learners, walk = Learners(maze, networks, seeds).double(), Walk(maze, setting, seeds)
    alone = [Alone(maze, setting, networks, seed) for seed in seeds]
    # Where φ' starts, at 0, all novelties are equal and most gradients vanish: start elsewhere.
    last = 0.5 * torch.randn((2, 5, 4), generator=torch.Generator().manual_seed(1)).double()
    for run, weight in zip(alone, last, strict=True):
        list(run.predictor.parameters())[-2].data = weight.T.clone()
    learners.novelty.predictor.weights[-1].data = last
    learners.novelty.target = torch.stack([run.phi for run in alone])  # not rounded to single precision
    before = [parameter.clone() for parameter in learners.parameters()]
    ending = 0
    for _ in range(2):
        q, n = learners()
        steps = walk.go(q.detach(), 20)
        paid = bonuses(n.detach(), steps, setting)
        losses = torch.stack(learners.update(q, n, steps, setting), dim=1)
        ending += int(steps.terminated.sum())
        for r, run in enumerate(alone):
            bonus, *loss = run.update(
                list(zip(*(x[r].tolist() for x in (steps.s, steps.action, steps.s_next)), strict=True))
            )
            np.testing.assert_allclose(paid[r], bonus, atol=1e-12)
            np.testing.assert_allclose(losses[r].detach(), loss, rtol=1e-12)
    assert (ending > 0) == setting.ends
    for stack, name in ((learners.q_net, "q"), (learners.novelty.predictor, "predictor")):
        for r, run in enumerate(alone):
            linears = [layer for layer in getattr(run, name) if isinstance(layer, torch.nn.Linear)]
            for weight, bias, linear in zip(stack.weights, stack.biases, linears, strict=True):
                torch.testing.assert_close(weight[r].T, linear.weight, rtol=0, atol=1e-10)
                torch.testing.assert_close(bias[r, 0], linear.bias, rtol=0, atol=1e-10)
    assert all((old != new).any() for old, new in zip(before, learners.parameters(), strict=True))


@pytest.mark.parametrize("setting", [replace(s, temperature=0.1) for s in SETTINGS])
def test_networks_walk_as_the_maze_allows_and_repeat(setting: Setting) -> None:
    maze = Maze((5, 2, 3, 2))
    networks = NetworkSetting(interval=15)  # which divides neither an episode nor all steps evenly
    runs = explore_with_networks(maze, setting, [4, 5], networks)
    again = explore_with_networks(maze, setting, [4, 5], networks)
    for run, same in zip(runs, again, strict=True):
        np.testing.assert_array_equal(run.cells, same.cells)
        assert run.cells.sum() == 30 * 40
        assert run.visits.tolist() == [run.cells[maze.corridor == j].sum() for j in range(4)]
        assert run.curve.shape == (30, 4)
        # A corridor is entered before it is visited, and no cell before the one that leads to it.
        assert ((run.entries > 0) == (run.visits > 0)).all()
        for first, last in zip(maze.first, maze.last, strict=True):
            assert (np.diff((run.cells[first : last + 1] > 0).astype(int)) <= 0).all()
        if setting.ends:
            assert (run.cells[maze.last] <= run.entries).all()
    assert (runs[0].cells != runs[1].cells).any()


def test_runs_side_by_side_do_not_meet() -> None:
    """Each run is the same, to rounding, whoever walks beside it: over one update alone rounding cannot matter yet."""
    setting = Setting(difference=True, temperature=0.1, episodes=2, length=30)
    together = explore_with_networks(Maze(), setting, [4, 5, 6], NetworkSetting(interval=30))
    alone = explore_with_networks(Maze(), setting, [5], NetworkSetting(interval=30))
    np.testing.assert_array_equal(together[1].cells, alone[0].cells)


def test_shares_are_those_of_the_last_episodes() -> None:
    curve = np.cumsum(np.random.default_rng(1).integers(0, 9, (40, 4)), axis=0)
    found = shares(curve)
    recent = curve[30] - curve[30 - WINDOW]
    np.testing.assert_allclose(found[30], recent / recent.sum())
    np.testing.assert_allclose(found[2], curve[2] / curve[2].sum())


def test_bebold_is_even_where_counts_are_short_sighted() -> None:
    """The claim itself, on seeds that nothing was chosen on and half of the budget."""
    found = {
        name: np.mean([entropy(explore(Maze(), replace(setting, episodes=300), seed).visits) for seed in range(40, 46)])
        for name, setting in corridor_study.METHODS.items()
        if "tabular" in name
    }
    assert found["bebold-tabular"] > 1.9
    assert found["count-tabular"] < 1.5


def test_bebold_is_even_where_networks_are_short_sighted() -> None:
    """The same with networks, on other seeds and a sixth of the budget."""
    found = {}
    for name in ("rnd", "bebold"):
        runs = explore_with_networks(Maze(), replace(corridor_study.METHODS[name], episodes=100), range(40, 44))
        found[name] = np.mean([entropy(run.visits) for run in runs])
    assert found["bebold"] > found["rnd"] + 0.3


def test_the_smoke_run_writes_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "corridor", "--out", str(tmp_path), "--smoke", "--quiet"]) == 0
    folder = tmp_path / "corridor-smoke"
    assert str(folder) in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {
        "corridor.csv",
        "tables.md",
        "sensitivity.csv",
        "sensitivity.md",
        "corridor.png",
    }
    with open(folder / "corridor.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["count-tabular", "bebold-tabular", "rnd", "bebold"]
    columns = "method,visits_1,visits_2,visits_3,visits_4,entropy_mean,entropy_std,seeds"
    assert list(rows[0]) == columns.split(",")
    for row in rows:
        assert row["seeds"] == "2" and 0 <= float(row["entropy_mean"]) <= 2
        assert 0 < sum(int(row[f"visits_{j}"]) for j in range(1, 5)) <= 6 * 180
    assert imageio.imread(folder / "corridor.png").std() > 10


def test_an_unknown_name_lists_experiments_and_studies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "zzz", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert all(name in told for name in ("table2", "sensitivity", *STUDIES))


def test_settings_are_counted_by_hand() -> None:
    learners = ((0.1, 0.9), (0.1, 1.0), (0.0, 0.9))
    bits = (("1.95 ± 0.10", "1.90 ± 0.00"), ("1.96 ± 0.00", "1.96 ± 0.00"), ("1.94 ± 0.10", "1.99 ± 0.00"))
    rows = [
        {"ends": False, "temperature": warm, "discount": discount, "bebold": bebold, "count": count}
        for (warm, discount), (bebold, count) in zip(learners, bits, strict=True)
    ]
    found = corridor_study.counts_table(rows).rows[0]
    assert list(found[1:]) == ["1 of 3", "2 of 3", "2 of 3", "1 of 1", "1 of 1"]
