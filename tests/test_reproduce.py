"""The paper's experiments: what they ask for, and that one command leads from there to tables and figures."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import imageio.v3 as imageio
import pytest

from bebold import reproduce as module
from bebold.cli import main
from bebold.config import EvaluationConfig, NetworkConfig, TrainConfig
from bebold.errors import UsageError
from bebold.experiments import EXPERIMENTS, published
from bebold.experiments.experiment import Experiment, cut_short
from bebold.gridworld.tasks import TASKS
from bebold.report import find_runs
from bebold.reproduce import find_experiment
from bebold.runs import run_folder
from bebold.settings import validate

TINY = TrainConfig(
    task="KCS3R3",
    total_steps=1200,
    num_envs=16,
    unroll=16,
    network=NetworkConfig(hidden=16, memory=16),
    evaluation=EvaluationConfig(interval=400, episodes=4),
)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_run_is_possible_and_has_a_folder_of_its_own(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    for runs in (experiment.runs, experiment.smoke):
        for config in runs:
            validate(replace(config, workers=1))
        assert len({run_folder(config, Path()) for config in runs}) == len(runs)
    assert len(experiment.smoke) <= 8
    assert all(config.total_steps <= 200_000 for config in experiment.smoke)


def test_table2_has_the_papers_tasks_and_seeds_that_nothing_was_tuned_on() -> None:
    runs = EXPERIMENTS["table2"].runs
    seeds = Counter((run.name, run.task) for run in runs)
    assert {task for _, task in seeds} == set(published.TASKS)
    expected = {"bebold": 4, "bebold-alpha1-scale1": 2, "episodic": 2}
    expected |= dict.fromkeys(("ride", "rnd", "none", "icm", "amigo"), 2)
    for task in published.TASKS:
        assert {name: seeds[name, task] for name, _ in seeds} == expected
    assert max(run.seed for run in runs) < 101
    published_rows = [run for run in runs if run.name == "bebold-alpha1-scale1"]
    assert {(run.intrinsic.alpha, run.ppo.extrinsic_scale) for run in published_rows} == {(1.0, 1.0)}
    limits = {"MR": 5e6, "KC": 20e6, "OM": 30e6}  # at most half of what the paper needed, explored in half of that
    assert all(run.total_steps <= limits[run.task[:2]] for run in runs)
    assert {run.name for run in EXPERIMENTS["table2"].smoke} == set(expected)


def test_no_two_experiments_ask_for_different_runs_in_one_folder() -> None:
    """They share their run folders: what is called the same must be the same."""
    asked: dict[Path, TrainConfig] = {}
    shared = 0
    for experiment in EXPERIMENTS.values():
        for config in experiment.runs:
            folder = run_folder(config, Path())
            shared += folder in asked
            assert asked.setdefault(folder, config) == config
    assert shared == 26  # of BeBold and `episodic` in the ablations, of BeBold beside the keys that balls do not change


def test_static_has_every_task_of_the_appendixs_families() -> None:
    families = {"empty", "four_rooms", "door_key", "red_blue_doors", "lava_gap", "crossing"}
    tasks = {run.task for run in EXPERIMENTS["static"].runs}
    assert tasks == {task.id for task in TASKS if task.family in families}
    assert len(tasks) == 24  # counted in the paper's list


def test_the_sensitivity_grid_holds_the_papers() -> None:
    cells = {(run.ppo.entropy, run.intrinsic.coefficient) for run in EXPERIMENTS["sensitivity"].runs}
    assert cells >= {(entropy, beta) for entropy in (1e-4, 5e-4, 1e-3) for beta in (0.01, 0.05, 0.1)}


def test_every_panel_of_a_grid_has_runs() -> None:
    experiment = EXPERIMENTS["sensitivity"]
    shown = [name for row in experiment.grid for name, _ in row]
    assert sorted(shown) == sorted({run.name for run in experiment.runs})
    assert dict(experiment.grid[0])["bebold-ent0.0001-beta0.01"] == "entropy 0.0001, β 0.01"


def test_runs_are_cut_short() -> None:
    short = cut_short(replace(TINY, total_steps=10**9))
    assert short.total_steps == 10 * 16 * 16
    assert short.total_steps // short.evaluation.interval == 3


def test_one_command_leads_to_tables_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ((("bebold", "left"), ("other", "right")), (("bebold", "below"), ("missing", "empty")))
    tiny = Experiment("tiny", "For this test", (), (TINY, replace(TINY, label="other", seed=2)), grid)
    monkeypatch.setitem(EXPERIMENTS, "tiny", tiny)
    command = ["reproduce", "tiny", "--smoke", "--quiet", "--out", str(tmp_path)]
    assert main(command) == 0
    folder = tmp_path / "tiny-smoke"
    assert str(folder) in capsys.readouterr().out
    text = (folder / "tables.md").read_text()
    assert text.startswith("# For this test") and "| KCS3R3 | other | 1 |" in text
    with (folder / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    judged = [(row["method"], row["seed"], row["episodes"]) for row in rows]
    assert judged == [("bebold", "1", "8"), ("other", "2", "8")]
    for name in ("curves.png", "aggregate.png", "grid.png"):
        assert imageio.imread(folder / name).std() > 1
    assert find_runs([folder / "records"]) == [folder / "records/KCS3R3/bebold/1", folder / "records/KCS3R3/other/2"]

    real = Experiment("tiny", "For this test", tiny.smoke, (), grid)
    monkeypatch.setitem(EXPERIMENTS, "tiny", real)
    monkeypatch.setattr(module, "sweep", lambda *_, **__: find_runs([folder / "runs"]))
    assert main([word for word in command if word != "--smoke"]) == 0
    assert (tmp_path / "tiny" / "tables.md").exists()


def test_tasks_beside_the_papers_have_no_aggregate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(TINY, task="MiniGrid-Empty-5x5-v0")
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "For this test", (), (tiny,)))
    assert main(["reproduce", "tiny", "--smoke", "--quiet", "--out", str(tmp_path)]) == 0
    folder = tmp_path / "tiny-smoke"
    assert find_runs([folder / "records"]) and not (folder / "aggregate.png").exists()


def test_a_rehearsal_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "table2-smoke" / "runs" / "MRN6"
    old.mkdir(parents=True)
    real = tmp_path / "runs" / "MRN6"
    real.mkdir(parents=True)

    def note(*_: object, **__: object) -> list[Path]:
        assert not old.exists() and real.exists()
        raise UsageError("seen")

    monkeypatch.setattr(module, "sweep", note)
    with pytest.raises(UsageError, match="seen"):
        module.reproduce("table2", tmp_path, smoke=True)


def test_an_unknown_experiment_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "tabel2"]) == 2
    assert "there is no experiment 'tabel2'; did you mean table2?" in capsys.readouterr().err
    with pytest.raises(UsageError, match="did you mean"):
        find_experiment("")
