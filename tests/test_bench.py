"""The bench measures what it says; how fast is not tested here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bebold import bench


def test_memory_of_a_process_and_its_children() -> None:
    code = "block = bytearray(b'x') * 50_000_000; print('ready', flush=True); input()"
    alone = bench.tree_memory(os.getpid())
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        both = bench.tree_memory(os.getpid())
        child.kill()
    assert both - alone > 40_000_000
    assert bench.tree_memory(child.pid) == 0


class Clock:
    """Stands for the module `time`: it goes on only when an environment steps."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


class SlowEnvs:
    """Takes 2 ms a step; an episode of one environment is 7 steps long."""

    single_action_space = SimpleNamespace(n=7)

    def __init__(self, clock: Clock):
        self.clock, self.steps, self.resets, self.closed = clock, 0, 0, False

    def reset(self, **_: Any) -> None:
        self.resets += 1

    def step(self, action: Any) -> tuple[None, float, bool, bool, dict]:
        assert not self.closed
        self.steps += 1
        self.clock.now += 0.002
        return None, 0.0, False, self.steps % 7 == 0, {}

    def close(self) -> None:
        self.closed = True


def test_speed_is_steps_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    envs, env = SlowEnvs(clock), SlowEnvs(clock)
    monkeypatch.setattr(bench, "time", clock)
    monkeypatch.setattr(bench, "make_envs", lambda task, num_envs: envs)
    monkeypatch.setattr(bench, "make_farama", lambda task: env)
    assert bench.engine_speed("KCS3R3", seconds=1.0) == pytest.approx(bench.NUM_ENVS / 0.002)
    assert envs.closed and (envs.steps - 1) % 271 == 0 and envs.steps > 500  # whole episodes, and one step before
    assert bench.farama_speed("KCS3R3", seconds=1.0) == pytest.approx(1 / 0.002)
    assert env.closed and env.resets == 1 + env.steps // 7


def test_the_real_ones_can_be_measured() -> None:
    assert bench.engine_speed("KCS3R3", seconds=0.01) > 0
    assert bench.farama_speed("KCS3R3", seconds=0.01) > 0


def test_an_engine_that_there_is_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "OTHERS", ("KCS3R3", "MRN7S8"))
    assert bench.other_engine_speeds(end=0.0) == {"KCS3R3": None, "MRN7S8": None}


def test_training_is_measured_and_its_process_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In place of the command a script writes the metrics, and takes no notice of SIGTERM."""
    script = tmp_path / "train.py"
    script.write_text(
        "import json, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "folder = pathlib.Path(sys.argv[sys.argv.index('--root') + 1]) / 'KCS4R3/bebold/1'\n"
        "folder.mkdir(parents=True)\n"
        "lines = [{'steps': 100 * k, 'time/elapsed': 0.1 * k, 'time/learn': 0.06} for k in range(100)]\n"
        "(folder / 'metrics.jsonl').write_text(''.join(json.dumps(line) + chr(10) for line in lines))\n"
        "time.sleep(60)\n"
    )
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
        assert command[1:3] == ["-m", "bebold.cli"]
        started.append(popen([command[0], str(script), *command[3:]], **options))
        return started[0]

    monkeypatch.setattr(bench.subprocess, "Popen", start)
    for name, seconds in {"SHORTEST": 1.0, "WARM_UP": 0.1, "PATIENCE": 0.1}.items():
        monkeypatch.setattr(bench, name, seconds)
    figures = bench.training_figures("KCS4R3", end=time.monotonic())
    assert figures["steps_per_second"] == pytest.approx(1000)
    assert figures["stages"] == {"learn": pytest.approx(0.6), "other": pytest.approx(0.4)}
    assert 1_000_000 < figures["memory_start_bytes"] <= figures["peak_memory_bytes"]
    assert 1_000_000 < figures["memory_end_bytes"] <= figures["peak_memory_bytes"]
    assert started[0].poll() is not None


def test_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    training = {
        "steps_per_second": 5.0,
        "peak_memory_bytes": 8 * 2**20,
        "stages": {"learn": 0.6, "other": 0.4},
        "memory_start_bytes": 6 * 2**20,
        "memory_end_bytes": 7 * 2**20,
    }
    for name, value in {"engine": 1.0, "farama": 2.0, "envpool": None, "collection": 3.0}.items():
        monkeypatch.setattr(bench, f"{name}_speed", lambda _, value=value: value)
    monkeypatch.setattr(bench, "training_figures", lambda task, end: training)
    others = {"MRN7S8": 4.0, "MRN12S10": None, "OMFull": None}
    monkeypatch.setattr(bench, "other_engine_speeds", lambda end: others)
    assert bench.bench(as_json=True) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {key: figures[key] for key in list(figures)[:7]} == {
        "engine_steps_per_second": 1.0,
        "farama_steps_per_second": 2.0,
        "train_steps_per_second": 5.0,
        "peak_memory_bytes": 8 * 2**20,
        "stages": {"learn": 0.6, "other": 0.4},
        "memory_start_bytes": 6 * 2**20,
        "memory_end_bytes": 7 * 2**20,
    }
    assert figures["engine"] == {"KCS4R3": 1.0} | others
    assert bench.bench() == 0
    words = capsys.readouterr().out
    assert "not installed" in words and "learn 60%, other 40%" in words and "no time left" in words
    assert "at first 6 MiB, at last 7 MiB, at most 8 MiB" in words
