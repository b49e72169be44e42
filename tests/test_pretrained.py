"""Agents that come with the package: the best of each task, small, and as good as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bebold import pretrained
from bebold.checkpoint import load_weights
from bebold.cli import main
from bebold.config import EvaluationConfig, NetworkConfig, TrainConfig
from bebold.errors import UsageError
from bebold.evaluation import load_policy
from bebold.training import train

CONFIG = TrainConfig(
    task="MiniGrid-Empty-5x5-v0",
    total_steps=500,
    num_envs=16,
    unroll=16,
    workers=1,
    network=NetworkConfig(hidden=16, memory=16),
    evaluation=EvaluationConfig(interval=0),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of one task, of which the second did best, the third was not evaluated; and a better control."""
    root = tmp_path_factory.mktemp("runs")
    for seed, value in {1: 0.2, 2: 0.9, 3: None}.items():
        _say_it_earned(value, train(replace(CONFIG, seed=seed), root=root, quiet=True))
    _say_it_earned(1.0, train(replace(CONFIG, method="episodic"), root=root, quiet=True))
    return root


def _say_it_earned(value: float | None, folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if value is not None:
        lines[-1]["eval/return_mean"] = value
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def packed(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "agents")
    (path,) = pretrained.pack([runs])
    return path


def test_the_best_agent_is_packed_in_half_the_space(runs: Path, packed: Path) -> None:
    best = runs / "MiniGrid-Empty-5x5-v0" / "bebold" / "2" / "weights.safetensors"
    whole, half = load_weights(best)[0], load_weights(packed)[0]
    assert set(whole) == set(half)
    for name, x in whole.items():
        torch.testing.assert_close(half[name].float(), x, rtol=1e-3, atol=1e-6)
    assert packed.stat().st_size < 0.6 * best.stat().st_size
    assert packed == pretrained.find_pretrained("bebold/MiniGrid-Empty-5x5-v0")


def test_it_plays_as_it_did(runs: Path, packed: Path) -> None:
    policy, config = load_policy(packed)
    whole, _ = load_policy(runs / "MiniGrid-Empty-5x5-v0" / "bebold" / "2")
    other, _ = load_policy(runs / "MiniGrid-Empty-5x5-v0" / "bebold" / "1")
    assert (config.seed, config.network) == (2, replace(CONFIG.network, architecture="mlp-gru"))
    image = torch.randint(4, (30, 8, 7, 7, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    starts = torch.zeros(30, 8, dtype=torch.bool)
    with torch.no_grad():
        packed_value, value, others = (
            agent.unroll({"image": image}, agent.initial_state(8), starts)[1] for agent in (policy, whole, other)
        )
    torch.testing.assert_close(packed_value, value, rtol=0.05, atol=0.02)
    assert (others - value).abs().mean() > 10 * (packed_value - value).abs().mean()


def test_from_the_command_line(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "bebold/MiniGrid-Empty-5x5-v0", "--pretrained", "--episodes", "1"]) == 0
    assert (tmp_path / "MiniGrid-Empty-5x5-v0.gif").read_bytes()[:3] == b"GIF"
    assert main(["eval", "MiniGrid-Empty-5x5-v0", "--pretrained", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["episodes"] == 2
    assert list(packed.parent.iterdir()) == [packed]
    assert main(["eval", "KCS3R3"]) == 2
    assert "or a task with --pretrained" in capsys.readouterr().err
    assert main(["watch", "OMFull", "--pretrained"]) == 2
    assert "no trained agent for OMFull comes with this package, only for MiniGrid-Empty" in capsys.readouterr().err


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    with pytest.raises(UsageError, match="no trained agent for MRN6 comes with this package, only for no task"):
        pretrained.find_pretrained("MRN6")
