"""The first thing to run, small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bebold import demo
from bebold.cli import main
from bebold.config import EvaluationConfig, PPOConfig
from bebold.runs import Run, read_metrics

SMALL = replace(
    demo.CONFIG,
    total_steps=600,
    num_envs=8,
    unroll=8,
    workers=1,
    device="cpu",
    ppo=PPOConfig(minibatches=2),
    evaluation=EvaluationConfig(interval=300, episodes=2),
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "CONFIG", SMALL)
    monkeypatch.setattr(demo, "TEST_LEVELS", 4)
    monkeypatch.setattr(demo, "EPISODES", 1)


def test_demo_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "KCS3R3" / "bebold" / "1"
    for _ in range(2):
        assert main(["demo", "--root", str(tmp_path), "--quiet"]) == 0
        said = capsys.readouterr().out
        assert "4 fresh levels of Farama's MiniGrid-KeyCorridorS3R3-v0" in said
        for name in ("curve.png", "agent.gif", "checkpoints", "events"):
            assert (folder / name).exists() and f"{folder / name}: " in said


@pytest.mark.parametrize("updates", [0, 2])
def test_what_was_killed_before_its_first_checkpoint_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: int
) -> None:
    for name in ("judge", "record_episodes", "write_video"):
        monkeypatch.setattr(demo, name, lambda *_, **__: ([], None))
    with Run.create(SMALL, tmp_path) as run:
        for update in range(updates):
            run.log(32 * (update + 1), {"a": 1.0})
    demo.demo(tmp_path, quiet=True)
    metrics = read_metrics(run.folder)
    assert metrics["steps"][0] == 64 and metrics["steps"][-1] >= 600 and "a" not in metrics
