"""The paper's experiments: what they ask for, and that one command leads from there to tables and figures."""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import imageio.v3 as imageio
import pytest

from bebold import reproduce as module
from bebold import sweep as sweep_module
from bebold.cli import main
from bebold.config import EvaluationConfig, NetworkConfig, TrainConfig
from bebold.errors import UsageError
from bebold.experiments import EXPERIMENTS, published
from bebold.experiments.experiment import Experiment, cut_short
from bebold.gridworld.tasks import TASKS
from bebold.methods.recipes import RECIPES
from bebold.report import find_runs
from bebold.reproduce import find_experiment, part_of
from bebold.runs import run_folder
from bebold.settings import resolve, validate
from bebold.sweep import is_done

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
    assert shared == 35  # of rows of table 2: in the ablations, the sensitivity grid, the obstacles, every method


def test_static_has_every_task_of_the_appendixs_families() -> None:
    families = {"empty", "four_rooms", "door_key", "red_blue_doors", "lava_gap", "crossing"}
    tasks = {run.task for run in EXPERIMENTS["static"].runs}
    assert tasks == {task.id for task in TASKS if task.family in families}
    assert len(tasks) == 24  # counted in the paper's list


def test_every_method_is_tried_on_tasks_that_chance_solves_and_on_one_that_it_does_not() -> None:
    runs = EXPERIMENTS["every-method"].runs
    tried = Counter((run.task, run.method) for run in runs if run.learner == "ppo")
    assert tried == dict.fromkeys(product(("KCS3R3", *(f"MiniGrid-KeyCorridorS3R{n}-v0" for n in (1, 2))), RECIPES), 1)
    of_table2 = {run.method for run in runs if run in EXPERIMENTS["table2"].runs}
    assert of_table2 == {"bebold", "episodic", "ride", "rnd", "none", "icm", "amigo"}
    assert all(run.stop_when_solved == (run.name not in of_table2) for run in runs if run.task == "KCS3R3")
    assert [run.name for run in runs if run.learner == "impala"] == ["bebold-impala"]


def test_the_sensitivity_grid_holds_the_papers() -> None:
    """In its units: against a reward that is not scaled."""
    cells = set()
    for run in map(resolve, EXPERIMENTS["sensitivity"].runs):
        scale = run.ppo.extrinsic_scale
        cells.add((round(run.ppo.entropy / scale, 9), round(run.intrinsic.coefficient / scale, 9)))
    assert cells >= {(entropy, beta) for entropy in (1e-4, 5e-4, 1e-3) for beta in (0.01, 0.05, 0.1)}


def test_every_panel_of_a_grid_has_runs() -> None:
    experiment = EXPERIMENTS["sensitivity"]
    shown = [name for row in experiment.grid for name, _ in row]
    assert sorted(shown) == sorted({run.name for run in experiment.runs})
    assert dict(experiment.grid[0])["bebold-ent0.001-beta0.1"] == "entropy 0.001, β 0.1"


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
    monkeypatch.setattr(sweep_module, "sweep", lambda *_, **__: [])
    monkeypatch.setattr(module, "TEST_LEVELS", 8)
    shutil.copytree(folder / "runs", tmp_path / "runs")
    assert main([word for word in command if word != "--smoke"]) == 0
    assert (tmp_path / "tiny" / "tables.md").exists()


RECORDS = Path(__file__).parents[1] / "results" / "table2"


def redraw(out: Path, records: str | Path, part: str = "--tasks KCS3R3 --rows bebold --seeds 11,12") -> int:
    return main(["reproduce", "table2", *part.split(), "--records", str(records), "--out", str(out)])


def summary(folder: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    with (folder / "summary.csv").open() as file:
        return {(row["task"], row["method"], row["seed"]): row for row in csv.DictReader(file)}


def test_records_are_drawn_without_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "sweep", lambda *_, **__: pytest.fail("nothing is to be trained"))
    assert redraw(tmp_path, RECORDS) == 0
    folder, whole = tmp_path / "table2", summary(RECORDS)
    places = [("KCS3R3", "bebold", "11"), ("KCS3R3", "bebold", "12")]
    assert summary(folder) == {place: whole[place] for place in places}
    assert (folder / "tables.md").read_text().startswith("# The twelve hardest MiniGrid tasks, 2 of ")
    for name in ("curves.png", "aggregate.png"):
        assert imageio.imread(folder / name).std() > 1

    # What was drawn from is left alone, also where the experiment itself would have put it.
    own = folder / "records"
    shutil.copytree(RECORDS / "KCS3R3/bebold/12", own / "KCS3R3/bebold/12")
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    assert redraw(tmp_path, own) == 0
    assert set(summary(folder)) == {places[1]}
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_the_first_folder_that_has_a_run_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = tmp_path / "records/KCS3R3/bebold/12"
    shutil.copytree(RECORDS / "KCS3R3/bebold/12", one)
    verdict = one / "evaluation.json"
    verdict.write_text(re.sub(r'"return_mean": [0-9.]+', '"return_mean": 0.5', verdict.read_text()))
    assert redraw(tmp_path, f"{tmp_path / 'records'},{RECORDS}") == 0
    returns = {seed: row["return_mean"] for (_, _, seed), row in summary(tmp_path / "table2").items()}
    assert returns == {"11": summary(RECORDS)["KCS3R3", "bebold", "11"]["return_mean"], "12": "0.5"}

    # One with other settings is left out.
    config = one / "config.yaml"
    config.write_text(re.sub(r"adam_eps: \S+", "adam_eps: 1.0e-03", config.read_text()))
    assert redraw(tmp_path, f"{tmp_path / 'records'},{RECORDS}") == 0
    assert summary(tmp_path / "table2")["KCS3R3", "bebold", "12"]["return_mean"] != "0.5"
    assert "left out of the tables" in caplog.text and "adam_eps 0.001" in caplog.text


@pytest.mark.parametrize(
    ("records", "part", "words"),
    [
        ("{here}/none", "", "there is no run in {here}/none"),
        ("{here}/none,{records}", "", "there is no run in {here}/none"),
        ("{records}", "--rows ?", "table2 has no row ?; there are bebold"),
        (
            "{records}/KCS3R3/bebold",
            "",
            "no finished run of table2 with its present settings; `bebold report {records}",
        ),
        ("{records}", "--smoke", "a rehearsal is run as a whole; leave --rows, --tasks, --seeds and --records out"),
    ],
)
def test_records_that_give_nothing_are_refused(
    records: str, part: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"here": tmp_path, "records": RECORDS}
    assert redraw(tmp_path / "out", records.format(**names), part) == 2
    assert words.format(**names) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_part_is_trained_and_the_tables_are_of_all_that_is_done(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = tuple(replace(TINY, label=label, seed=seed) for label in ("one", "other") for seed in (1, 2))
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "For this test", runs, ()))
    monkeypatch.setattr(module, "TEST_LEVELS", 4)
    command = ["reproduce", "tiny", "--quiet", "--out", str(tmp_path)]
    for part, done in (
        ("--rows one --seeds 2", ["one/2"]),
        ("--rows other --tasks KCS3R3 --seeds 1", ["one/2", "other/1"]),
    ):
        assert main([*command, *part.split()]) == 0
        with (tmp_path / "tiny" / "summary.csv").open() as file:
            assert [f"{row['method']}/{row['seed']}" for row in csv.DictReader(file)] == done
    assert [str(run.relative_to(tmp_path / "runs" / "KCS3R3")) for run in find_runs([tmp_path / "runs"])] == done
    assert is_done(runs[1], tmp_path / "runs", 4) and not is_done(runs[1], tmp_path / "runs", 5)
    with pytest.raises(UsageError, match="holds a run with num_envs 16, not 32"):
        is_done(replace(runs[1], num_envs=32), tmp_path / "runs", 4)
    assert (tmp_path / "tiny" / "tables.md").read_text().startswith("# For this test, 2 of 4 runs\n")
    assert is_done(runs[1], tmp_path / "runs", 4) and not is_done(runs[1], tmp_path / "runs", 5)

    # One that fails ends the command, a folder that is no run of the experiment is left out; the tables are written.
    (tmp_path / "runs/KCS3R3/one/2/config.yaml").write_text("damaged: [")
    fails = replace(TINY, label="fails")
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "For this test", (*runs, fails), ()))
    monkeypatch.setattr(sweep_module, "interpreter", lambda code: ([sys.executable, "-c", "exit(3)"], dict(os.environ)))
    shutil.rmtree(tmp_path / "tiny")
    capsys.readouterr()
    assert main([*command, "--rows", "fails"]) == 1
    assert (tmp_path / "tiny" / "tables.md").read_text().startswith("# For this test, 1 of 5 runs\n")
    assert "1 of 1 runs failed" in capsys.readouterr().err
    assert "left out of the tables" in caplog.text and "one/2" in caplog.text


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("--rows tow", "tiny has no row tow; there are one, other"),
        ("--rows one,", "tiny has no row ; there are one, other"),
        ("--seeds 3", "tiny has no seed 3; there are 1, 2"),
        ("--tasks MiniGrid-MultiRoom-N6-v0", "tiny has no task MRN6; there are KCS3R3"),
        ("--tasks MRN66", "unknown task 'MRN66'"),
        ("--rows one,other --seeds 1", "tiny has no run of row other with the rest of what is asked for"),
        ("--seeds 1 --smoke", "a rehearsal is run as a whole"),
    ],
)
def test_a_part_that_there_is_not_is_refused(
    part: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = (replace(TINY, label="one", seed=1), replace(TINY, label="other", seed=2))
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "For this test", runs, ()))
    assert main(["reproduce", *part.split(), "tiny", "--out", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("--seeds 1", "the study noise is run as a whole; leave --rows, --tasks and --seeds out"),
        ("--records results/noise", "the study noise keeps no records of runs; leave --records out"),
    ],
)
def test_a_study_has_no_parts(part: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "noise", *part.split(), "--out", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_parts_are_chosen_by_either_name_of_a_task() -> None:
    runs = EXPERIMENTS["table2"].runs
    part = part_of(
        EXPERIMENTS["table2"], rows=["ride", "rnd"], tasks=["MiniGrid-MultiRoom-N6-v0", "KCS3R3"], seeds=[11]
    )
    names = [("ride", "MRN6"), ("ride", "KCS3R3"), ("rnd", "MRN6"), ("rnd", "KCS3R3")]
    assert [(run.name, run.task, run.seed) for run in part] == [(row, task, 11) for row, task in names]
    assert part_of(EXPERIMENTS["table2"]) == list(runs)


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

    monkeypatch.setattr(sweep_module, "sweep", note)
    with pytest.raises(UsageError, match="seen"):
        module.reproduce("table2", tmp_path, smoke=True)


def test_an_unknown_experiment_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "tabel2"]) == 2
    assert "there is no experiment 'tabel2'; did you mean table2?" in capsys.readouterr().err
    with pytest.raises(UsageError, match="choose one of table2, "):
        find_experiment("")
