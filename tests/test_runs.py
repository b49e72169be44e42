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
from bebold.config import EvaluationConfig, IntrinsicConfig, PPOConfig, RNDConfig, TrainConfig
from bebold.errors import RunError, UsageError
from bebold.gridworld.tasks import UnknownTask
from bebold.runs import Run, read_config, read_metrics
from bebold.settings import from_yaml, to_yaml, validate, worker_count

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


def test_settings_and_origin_are_kept(tmp_path: Path) -> None:
    config = replace(CONFIG, ppo=PPOConfig(entropy=5e-4), intrinsic=IntrinsicConfig(rnd=RNDConfig(hidden=7)))
    with Run.create(config, tmp_path) as run:
        content = yaml.safe_load((run.folder / "config.yaml").read_text())
    assert content["version"] == bebold.__version__
    assert "commit" in content
    assert content["config"]["intrinsic"]["rnd"]["hidden"] == 7
    assert read_config(run.folder) == config
    with Run.open(run.folder) as run:
        assert run.config == config
        run.write_config(replace(config, total_steps=5))
    assert read_config(run.folder).total_steps == 5


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
    (run.folder / "checkpoints" / "x.pt.tmp").write_bytes(b"left by a kill")
    with Run.open(run.folder) as run:
        assert not list(run.folder.glob("**/*.tmp"))
        run.rewind(30)
        np.testing.assert_array_equal(read_metrics(run.folder)["steps"], [10, 20, 30])
        run.log(40, {"a": -1})
    np.testing.assert_array_equal(read_metrics(run.folder)["a"], [10, 20, 30, -1])
    events = EventAccumulator(str(run.folder / "events")).Reload()
    assert [(s.step, s.value) for s in events.Scalars("a")] == [(10, 10), (20, 20), (30, 30), (40, -1)]
    with Run.open(run.folder) as run:
        run.rewind(-1)
        assert (run.folder / "metrics.jsonl").read_text() == ""


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


def test_settings_survive_yaml() -> None:
    assert from_yaml(to_yaml(CONFIG, version="1", commit=None)) == CONFIG


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("config: {sede: 1}", "unknown setting sede; did you mean seed"),
        ("config: {ppo: {entropi: 1}}", "unknown setting ppo.entropi; did you mean ppo.entropy"),
        ("config: {zzz: 1}", "unknown setting zzz; remove it"),
        ("config: {seed: x}", "seed is 'x'; it takes a value of type int"),
        ("config: {seed: true}", "seed is True; it takes a value of type int"),
        ("config: {ppo: 3}", "ppo is a group of settings"),
        ("config: {device: gpu}", "device is 'gpu'; choose one of auto, cpu, cuda"),
        ("config: [", "not valid YAML"),
        ("just text", "has no section `config`"),
    ],
)
def test_bad_settings_files_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        from_yaml(text)


def test_numbers_as_people_write_them() -> None:
    config = from_yaml("config: {ppo: {entropy: 5e-4, clip: 1}}")
    assert config.ppo.entropy == 5e-4 and config.ppo.clip == 1.0


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (TrainConfig(num_envs=0), "num_envs is 0; it must be positive"),
        (TrainConfig(unroll=-4), "unroll is -4"),
        (TrainConfig(total_steps=0), "total_steps is 0"),
        (TrainConfig(seed=-1), "seed is -1; it must be a number that is not negative"),
        (TrainConfig(seed=1000), "seed is 1000; it must be below 1000"),
        (
            TrainConfig(workers=3),
            r"num_envs is 256; it must be a multiple of workers x ppo.minibatches = 3 x",
        ),
        (TrainConfig(workers=2, num_envs=6, ppo=PPOConfig(minibatches=4)), "must be a multiple of .* = 8"),
        (TrainConfig(ppo=PPOConfig(minibatches=0)), "ppo.minibatches is 0"),
        (TrainConfig(ppo=PPOConfig(learning_rate=0)), "ppo.learning_rate is 0; it must be positive"),
        (TrainConfig(ppo=PPOConfig(learning_rate=math.inf)), "ppo.learning_rate is inf"),
        (TrainConfig(ppo=PPOConfig(entropy=math.nan)), "ppo.entropy is nan"),
        (TrainConfig(ppo=PPOConfig(discount=1.5)), "ppo.discount is 1.5; it must lie between 0 and 1"),
        (TrainConfig(evaluation=EvaluationConfig(episodes=0)), "evaluation.episodes is 0"),
        (TrainConfig(method="bbold"), "there is no method 'bbold'; did you mean bebold"),
    ],
)
def test_impossible_settings_are_refused(config: TrainConfig, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        validate(config)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(UnknownTask, match="did you mean KCS3R3"):
        validate(TrainConfig(task="KCS3R33"))


def test_workers_share_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.os, "sched_getaffinity", lambda _: range(6), raising=False)
    minibatched = replace(CONFIG, ppo=PPOConfig(minibatches=4))
    assert worker_count(minibatched) == 4  # of 6 cores: 256 / 4 does not divide by 6 or 5
    assert worker_count(replace(minibatched, workers=3)) == 3
    validate(minibatched)
