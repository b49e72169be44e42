"""The command line as a person meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
import yaml

import bebold
from bebold import judge
from bebold.checkpoint import load_weights, save_weights
from bebold.cli import COMMANDS, main
from bebold.config import TrainConfig
from bebold.evaluation import Evaluation, load_policy
from bebold.gridworld.tasks import TASKS
from bebold.methods.recipes import RECIPES
from bebold.runs import read_metrics

SMALL = (
    "--task MiniGrid-Empty-5x5-v0 --method none --seed 7 --total-steps 1500 --num-envs 8 --unroll 8 --workers 1 "
    "--quiet --device cpu --network.hidden 8 --network.memory 8 --ppo.minibatches 2 --ppo.entropy 1e-3 "
    "--evaluation.interval 500 --evaluation.episodes 4"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    assert main(["train", *SMALL.split(), "--root", str(root)]) == 0
    return root


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "MiniGrid-Empty-5x5-v0" / "none" / "7"


def test_options_become_settings(folder: Path) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())["config"]
    assert (config["seed"], config["ppo"]["entropy"], config["network"]["hidden"]) == (7, 1e-3, 8)
    assert config["ppo"]["clip"] == TrainConfig().ppo.clip
    steps = read_metrics(folder)["steps"]
    assert steps[-1] >= 1500 > steps[-2]


def test_what_training_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *SMALL.split(), "--total-steps", "100", "--root", str(tmp_path)]) == 0
    said = capsys.readouterr()
    place = tmp_path / "MiniGrid-Empty-5x5-v0" / "none" / "7"
    assert said.out == f"{place}: trained; `bebold eval {place}` plays it, `bebold report {place}` draws it\n"
    assert "steps" in said.err and "/s" in said.err and "left" in said.err


def test_resume(folder: Path) -> None:
    before = read_metrics(folder)["steps"][-1]
    assert main(["resume", str(folder), "--total-steps", "1800", "--quiet"]) == 0
    assert read_metrics(folder)["steps"][-1] >= 1800 > before


def test_eval_in_words_and_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(folder), "--episodes", "6"]) == 0
    words = capsys.readouterr().out
    assert "6 fresh levels of Farama's MiniGrid-Empty-5x5-v0, sampled actions" in words
    assert main(["eval", str(folder), "--episodes", "6", "--json"]) == 0
    sampled = json.loads(capsys.readouterr().out)
    assert sampled == json.loads((folder / "evaluation.json").read_text())
    assert f"return {sampled['return_mean']:.3f} ± {sampled['return_std']:.3f}" in words
    assert 0 <= sampled["return_mean"] <= 1 and 1 <= sampled["length_mean"] <= 100
    assert sampled["episodes"] == 6 and not sampled["greedy"]
    assert main(["eval", str(folder / "weights.safetensors"), "--episodes", "2", "--greedy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["greedy"]
    assert not (folder / "evaluation-greedy.json").exists()  # weights alone have no folder to keep it in


def test_a_verdict_is_about_the_weights_that_were_played(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on writes newer weights: between two readings of the file, and while they are played."""
    path = tmp_path / "weights.safetensors"
    weights, words = load_weights(folder / path.name)

    def write(steps: int) -> None:
        changed = {name: torch.full_like(tensor, float(steps)) for name, tensor in weights.items()}
        save_weights(path, changed, words | {"steps": str(steps)})

    def load(source: Path) -> Any:
        loaded = load_policy(source)
        write(2)
        return loaded

    def play(policy: torch.nn.Module, *_: Any, **__: Any) -> Evaluation:
        write(3)
        played.append({float(value) for tensor in policy.state_dict().values() for value in tensor.flatten()})
        return Evaluation(np.ones(1), np.ones(1, np.int64))

    played: list[set[float]] = []
    monkeypatch.setattr(judge, "load_policy", load)
    monkeypatch.setattr(judge, "evaluate", play)
    write(1)
    assert judge.judge(tmp_path).steps == 2 and played == [{2.0}]


def test_watch(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(folder), "--episodes", "2", "--out", str(tmp_path / "a.gif")]) == 0
    assert imageio.imread(tmp_path / "a.gif").shape[1:] == (160, 160, 3)
    assert main(["watch", str(folder), "--episodes", "1", "--greedy"]) == 0
    assert (folder / "agent.gif").exists()
    capsys.readouterr()
    assert main(["watch", str(folder), "--terminal", "--episodes", "1", "--fps", "1000"]) == 0
    assert "get to the green goal square" in capsys.readouterr().out


def test_report(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table = tmp_path / "curve.png", tmp_path / "summary.csv"
    assert main(["report", str(root), "--out", str(out), "--csv", str(table)]) == 0
    assert "MiniGrid-Empty-5x5-v0" in capsys.readouterr().out
    assert imageio.imread(out).shape[2] in (3, 4)
    assert table.read_text().startswith("task,method,preset,seed,steps,")


def test_report_over_seeds(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, tables = tmp_path / "curve.png", tmp_path / "tables.md"
    command = [
        "report",
        str(root),
        "--out",
        str(out),
        "--tables",
        str(tables),
        "--title",
        "Small runs",
        "--aggregate",
        str(tmp_path / "a.png"),
    ]
    assert main(command) == 2
    said = capsys.readouterr()
    assert said.err == "bebold: no run has a curve on a task of the paper's table; leave out --aggregate\n"
    assert not out.exists() and not tables.exists()
    assert main(command[:-2]) == 0
    said = capsys.readouterr()
    assert f"{tables}: tables over seeds\n" in said.out and "Returns" not in said.out  # of one seed there is no mean
    assert tables.read_text().startswith("# Small runs\n\nOf 1 run.\n\n## Returns\n")


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"bebold {bebold.__version__}\n"


def test_tasks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(TASKS) + 1
    assert {line.split()[0] for line in lines[1:]} == {task.id for task in TASKS}
    (line,) = [line for line in lines if " KCS4R3 " in line]
    assert line.split() == [
        "MiniGrid-KeyCorridorS4R3-v0",
        "KCS4R3",
        "key_corridor",
        "10x10",
        "480",
        "0.93",
        "5,000,000",
    ]
    assert len({len(line) for line in lines}) == 1


def test_methods_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(RECIPES)
    source, bonus = heading.index("source"), heading.index("bonus")
    for line, recipe in zip(lines, RECIPES.values(), strict=True):
        assert float(line.split()[1]) == recipe.coefficient
        assert (line[source:bonus].strip(), line[bonus:]) == (recipe.source, recipe.formula)
    (ride,) = [line for line in lines if line.startswith("ride ")]
    assert ride.endswith("norm(phi(o') - phi(o)) / sqrt(N_e(o')), phi: ICM's")


def settings_of(config: Any, prefix: str = "") -> list[str]:
    names = []
    for field in fields(config):
        value = getattr(config, field.name)
        name = prefix + field.name
        names += settings_of(value, f"{name}.") if is_dataclass(value) else [name]
    return names


def test_help_reads_like_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert set(COMMANDS) == set("train resume eval watch report sweep reproduce bench tasks methods demo".split())  # noqa: SIM905
    assert all(f"• {command} " in overview for command in COMMANDS)
    assert main(["train", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name in settings_of(TrainConfig()):
        option = name.replace("_", "-")
        parts = option.rpartition(".")
        assert f"--{option} " in text or f"--{parts[0]}{parts[1]}no-{parts[2]} " in text, name
    assert "γ, per step (BeBold's released settings). (default: 0.99)" in text


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "usage: bebold" in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["--help", "methods"])
def test_what_only_tells_loads_nothing_heavy(argument: str) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "bebold.cli", argument]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert " bebold.config\n" in result.stderr
    for heavy in ("torch", "numba", "matplotlib"):
        assert f" {heavy}\n" not in result.stderr
