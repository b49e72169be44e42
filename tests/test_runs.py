"""The run folder: whole files, one process, metrics that agree with the checkpoint."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import bebold
from bebold import runs, settings
from bebold.config import IntrinsicConfig, PPOConfig, RNDConfig, TrainConfig
from bebold.errors import RunError, UsageError
from bebold.runs import Run, read_metrics
from bebold.settings import read_about, read_config, totals_before

CONFIG = TrainConfig(task="KCS4R3", method="rnd", seed=3)
WEIGHTS = {"w": torch.arange(3.0)}


def state(steps: int) -> dict:
    return {"steps": steps, "x": torch.full((4,), float(steps))}


def test_the_folder_is_named_after_task_method_and_seed(tmp_path: Path) -> None:
    by_id = replace(CONFIG, task="MiniGrid-KeyCorridorS4R3-v0")
    assert runs.run_folder(CONFIG, tmp_path) == tmp_path / "KCS4R3" / "rnd" / "3"
    assert runs.run_folder(by_id, tmp_path) == tmp_path / "KCS4R3" / "rnd" / "3"
    other = replace(CONFIG, task="bebold/MiniGrid-KeyCorridorS3R1-v0")
    assert runs.run_folder(other, tmp_path).parts[-3] == "MiniGrid-KeyCorridorS3R1-v0"


def test_a_label_takes_the_place_of_the_method(tmp_path: Path) -> None:
    config = TrainConfig(task="KCS3R3", method="bebold", label="bebold-alpha1", seed=7)
    assert runs.run_folder(config, tmp_path) == tmp_path / "KCS3R3" / "bebold-alpha1" / "7"


def test_settings_and_origin_are_kept(tmp_path: Path) -> None:
    config = replace(CONFIG, ppo=PPOConfig(entropy=5e-4), intrinsic=IntrinsicConfig(rnd=RNDConfig(hidden=7)))
    with Run.create(config, tmp_path) as run:
        content = yaml.safe_load((run.folder / "config.yaml").read_text())
    assert content["version"] == bebold.__version__
    assert "commit" in content and "resumed_with" not in content
    assert content["config"]["intrinsic"]["rnd"]["hidden"] == 7
    assert read_config(run.folder) == config
    with Run.open(run.folder) as run:
        assert run.config == config
        run.write_config(replace(config, total_steps=5))
    assert read_config(run.folder).total_steps == 5


def test_a_run_says_which_commits_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work_at(commit: str | None) -> None:
        monkeypatch.setattr(runs, "source_commit", lambda: commit)
        monkeypatch.setattr(settings, "source_commit", lambda: commit)

    work_at("a")
    with Run.create(CONFIG, tmp_path) as run:
        pass
    seen = []
    for commit in ("a", "b", "b", "c-dirty", None, "c-dirty"):
        work_at(commit)
        with Run.open(run.folder) as run:
            run.write_config(run.config)
        seen.append(settings.commits(settings.read_about(run.folder)))
    version = f"version {bebold.__version__}"
    assert seen[0] == ["a"]
    assert seen[1] == seen[2] == ["a", "b"]
    assert seen[5] == ["a", "b", "c-dirty", version, "c-dirty"]
    assert read_config(run.folder) == CONFIG


def test_a_second_run_in_a_folder_is_refused(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        run.log(1, {"a": 1.0})
    with pytest.raises(UsageError, match=f"`bebold resume {run.folder}`, or choose another --seed"):
        Run.create(CONFIG, tmp_path)


def test_a_run_that_never_began_does_not_stand_in_the_way(tmp_path: Path) -> None:
    Run.create(CONFIG, tmp_path).close()
    with Run.create(replace(CONFIG, unroll=7), tmp_path) as run:
        assert read_config(run.folder).unroll == 7


@pytest.mark.parametrize("where", ["nowhere", "."])
def test_there_must_be_a_run_to_open(tmp_path: Path, where: str) -> None:
    with pytest.raises(UsageError, match="there is no run in"):
        Run.open(tmp_path / where)
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        code = (
            f"from pathlib import Path; from bebold.runs import Run; "
            f"r = Run.open(Path({str(run.folder)!r})); "
            "print('mine', flush=True); input()"
        )
        for work in (lambda: Run.create(CONFIG, tmp_path), lambda: Run.open(run.folder)):
            with pytest.raises(RunError, match=r"is in use by process \d+; wait for it or stop it"):
                work()
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "mine\n"
        with pytest.raises(RunError, match=f"process {other.pid}"):
            Run.open(run.folder)
        other.kill()  # as `kill -9` does: the lock goes with the process
        other.wait()
        Run.open(run.folder).close()


def test_the_lock_is_let_go_of_if_a_run_cannot_be_opened(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        obstacle = run.folder / "config.yaml.tmp"
    obstacle.mkdir()
    with pytest.raises(RunError, match="cannot write"):
        Run.open(run.folder)
    obstacle.rmdir()
    Run.open(run.folder).close()


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('running', flush=True); input()"]
    with Run.create(CONFIG, tmp_path) as run:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
        # Only now are the files of the parent closed: a parent may go on while its child still begins.
        assert child.stdout is not None and child.stdout.readline()
    try:
        Run.open(run.folder).close()
    finally:
        child.communicate(b"\n")


def test_metrics_are_lines_of_json_and_not_finite_is_null(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        run.log(10, {"a": 1, "b": math.nan, "c": torch.tensor(2.5)})
        run.log(20, {"a": math.inf, "d": np.float32(3)})
        lines = (run.folder / "metrics.jsonl").read_text().splitlines()  # written out while the run goes on
    first, second = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert first["time/elapsed"] >= 0
    del first["time/elapsed"], second["time/elapsed"]
    assert first == {"steps": 10, "a": 1.0, "b": None, "c": 2.5}
    assert second == {"steps": 20, "a": None, "d": 3.0}


def test_metrics_are_read_as_columns_and_a_half_written_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"steps": 1, "a": 0.5}\n{"steps": 2, "a": null, "b": 2}\n{"steps": 3')
    columns = read_metrics(tmp_path)
    np.testing.assert_array_equal(columns["steps"], [1, 2])
    np.testing.assert_array_equal(columns["a"], [0.5, np.nan])
    np.testing.assert_array_equal(columns["b"], [np.nan, 2])
    assert len(read_metrics(tmp_path / "none")["steps"]) == 0


@pytest.mark.parametrize(
    "line", ["[1, 2]", "3", "null", "{}", '{"steps": "4"}', '{"steps": null}', '{"steps": 4, "a": "b"}', "\0" * 9]
)
def test_what_is_no_record_is_left_out_with_a_warning(
    tmp_path: Path, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"steps": 1, "a": 0.5}\n' + line + '\n{"steps": 3, "a": 1}\n')
    columns = read_metrics(tmp_path)
    np.testing.assert_array_equal(columns["steps"], [1, 3])
    np.testing.assert_array_equal(columns["a"], [0.5, 1])
    assert "metrics.jsonl: line 2 is no record of metrics and is left out" in caplog.text


def test_the_newest_two_checkpoints_stay(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        assert run.load() is None
        for steps in (900, 1000, 20000):
            run.save(state(steps), WEIGHTS)
        names = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
        assert names == ["000000001000.pt", "000000020000.pt"]
        loaded = run.load()
    assert loaded is not None and loaded["steps"] == 20000 and torch.equal(loaded["x"], state(20000)["x"])


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        for steps in (1, 2, 3):
            run.save(state(steps), WEIGHTS)
        older, newest = sorted((run.folder / "checkpoints").iterdir())
        newest.write_bytes(newest.read_bytes()[:-50])
        with caplog.at_level(logging.WARNING):
            loaded = run.load()
        assert loaded is not None and loaded["steps"] == 2
        assert f"{newest} is cut short" in caplog.text
        # The next save replaces the damaged one, even if it has come less far.
        run.save({"steps": 2}, WEIGHTS)
        assert [p.name for p in (run.folder / "checkpoints").iterdir()] == [older.name]
        older.write_bytes(b"")
        with pytest.raises(RunError, match=r"no checkpoint in .* can be read; train anew"):
            run.load()


def test_the_checkpoint_that_was_good_stays_until_there_are_two_again(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        for steps in (1, 2):
            run.save(state(steps), WEIGHTS)
        (run.folder / "checkpoints" / "000000000002.pt").write_bytes(b"")
        assert run.load() is not None
        run.save(state(3), WEIGHTS)
        names = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
        assert names == ["000000000001.pt", "000000000003.pt"]
        # On one machine steps repeat: what is written anew under the damaged one's name is a good one.
        (run.folder / "checkpoints" / "000000000003.pt").write_bytes(b"")
        assert (run.load() or {})["steps"] == 1
        run.save(state(3), WEIGHTS)
        assert (run.load() or {})["steps"] == 3


def test_it_is_remembered_when_another_total_was_asked_for(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        assert run.asked_at == 0

        def ask(taken: int, total: int) -> list[tuple[int, int]]:
            run.note_total(taken, total)
            run.write_config(replace(run.config, total_steps=total))
            return totals_before(read_about(run.folder))

        first = (30, CONFIG.total_steps)
        assert ask(30, 100) == [first]
        assert ask(70, 90) == [first, (70, 100)] and run.asked_at == 70
        # Asked for and called off before a step was kept.
        assert ask(70, 200) == [first, (70, 100)]
        assert ask(70, 100) == [first] and run.asked_at == 30
        assert ask(10, CONFIG.total_steps) == [] and run.asked_at == 0
    assert totals_before({"total_steps_before": [[1, 2], [1], "x", [1, True], [3, 4.0], [5, 6]]}) == [(1, 2), (5, 6)]
    assert totals_before({"total_steps_before": "much"}) == totals_before({}) == []


def test_weights_say_what_they_are(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        run.save(state(5), WEIGHTS)
    tensors, words = runs.checkpoint.load_weights(run.folder / "weights.safetensors")
    assert torch.equal(tensors["w"], WEIGHTS["w"])
    assert settings.from_dict(TrainConfig, json.loads(words["config"]), "here") == CONFIG
    assert words["steps"] == "5"


def test_rewinding_cuts_metrics_and_tensorboard_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with Run.create(CONFIG, tmp_path) as run:
        for steps in range(10, 60, 10):
            run.log(steps, {"a": steps})
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"steps": 60, "a":')
    with Run.open(run.folder) as run:
        run.rewind(30)
        np.testing.assert_array_equal(read_metrics(run.folder)["steps"], [10, 20, 30])
        run.log(40, {"a": -1})
    np.testing.assert_array_equal(read_metrics(run.folder)["a"], [10, 20, 30, -1])
    events = EventAccumulator(str(run.folder / "events")).Reload()
    assert [(s.step, s.value) for s in events.Scalars("a")] == [(10, 10), (20, 20), (30, 30), (40, -1)]
    with Run.open(run.folder) as run:
        run.rewind(-1)
        assert (run.folder / "metrics.jsonl").read_text() == ""


def test_what_a_kill_left_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        run.save(state(5), WEIGHTS)
    left = ["config.yaml.tmp", "metrics.jsonl.tmp", "weights.safetensors.tmp", "checkpoints/000000000009.pt.tmp"]
    others = ["notes.tmp", "evaluation.json.tmp", "old/config.yaml.tmp", "checkpoints/best.pt", "checkpoints/my.pt.tmp"]
    for name in left + others:
        (run.folder / name).parent.mkdir(exist_ok=True)
        (run.folder / name).write_bytes(b"half")
    with Run.open(run.folder) as run:
        loaded = run.load()
        assert loaded is not None and loaded["steps"] == 5
        for steps in (6, 7):
            run.save(state(steps), WEIGHTS)
    assert not any((run.folder / name).exists() for name in left)
    assert all((run.folder / name).read_bytes() == b"half" for name in others)


def test_working_time_goes_on_after_a_resume(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        run._begun -= 100
        run.log(1, {})
        run._begun -= 100
        run.log(2, {})
    with Run.open(run.folder) as run:
        run.rewind(1)
        assert 100 <= run.elapsed < 110


def test_the_summary_is_json(tmp_path: Path) -> None:
    with Run.create(CONFIG, tmp_path) as run:
        run.finish({"steps": 3, "steps_to_solve": None})
    assert json.loads((run.folder / "summary.json").read_text()) == {"steps": 3, "steps_to_solve": None}
