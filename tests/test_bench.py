"""The bench measures what it says; how fast is not tested here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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


def test_speeds_are_positive() -> None:
    assert bench.engine_speed("KCS3R3", seconds=0.01) > 10_000
    assert 100 < bench.farama_speed("KCS3R3", seconds=0.05) < 1e6
    if bench.envpool_speed("KCS3R3", seconds=0.01) is None:
        assert "envpool" not in sys.modules


def test_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    training = {"steps_per_second": 5.0, "peak_memory_bytes": 7, "stages": {"learn": 0.6, "other": 0.4}}
    for name, value in {"engine": 1.0, "farama": 2.0, "envpool": None, "collection": 3.0}.items():
        monkeypatch.setattr(bench, f"{name}_speed", lambda _, value=value: value)
    monkeypatch.setattr(bench, "training_figures", lambda _: training)
    assert bench.bench(as_json=True) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {key: figures[key] for key in list(figures)[:5]} == {
        "engine_steps_per_second": 1.0,
        "farama_steps_per_second": 2.0,
        "train_steps_per_second": 5.0,
        "peak_memory_bytes": 7,
        "stages": {"learn": 0.6, "other": 0.4},
    }
    assert bench.bench() == 0
    words = capsys.readouterr().out
    assert "not installed" in words and "learn 60%, other 40%" in words
