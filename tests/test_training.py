"""Training end to end, small: it learns, it repeats itself, and an interruption changes nothing."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from bebold.config import EvaluationConfig, NetworkConfig, PPOConfig, TrainConfig
from bebold.errors import RunError, UsageError
from bebold.evaluation import evaluate, load_policy
from bebold.runs import Run
from bebold.training import Interrupted, resume, train

SMALL = TrainConfig(
    task="KCS3R3",
    seed=3,
    total_steps=4000,
    num_envs=16,
    unroll=16,
    workers=1,
    device="cpu",
    checkpoint_interval=0.0,
    network=NetworkConfig(hidden=16, memory=16),
    ppo=PPOConfig(minibatches=2),
    evaluation=EvaluationConfig(interval=1000, episodes=4),
)
CLOCKS = ("time/", "charts/steps_per_second")


def metrics(folder):
    """All records, without what the clock decides."""
    lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not key.startswith(CLOCKS)} for line in lines]


def start(config, root):
    """Train in a process of its own, which can be killed."""
    code = (
        "import sys, yaml; from bebold.settings import from_dict; from bebold.config import TrainConfig; "
        "from bebold.training import train; train(from_dict(TrainConfig, yaml.safe_load(sys.argv[1])), "
        "root=sys.argv[2], quiet=True)"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(config)), str(root)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for_lines(folder, count, process):
    deadline = time.monotonic() + 120
    path = folder / "metrics.jsonl"
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return train(SMALL, root=tmp_path_factory.mktemp("whole"), quiet=True)


def test_the_same_seed_gives_the_same_numbers(uninterrupted, tmp_path):
    again = train(SMALL, root=tmp_path, quiet=True)
    other = train(replace(SMALL, seed=4), root=tmp_path, quiet=True)
    assert metrics(again) == metrics(uninterrupted)
    assert metrics(other) != metrics(uninterrupted)


def test_the_run_folder_tells_what_happened(uninterrupted):
    records = metrics(uninterrupted)
    steps = [record["steps"] for record in records]
    assert steps == sorted(set(steps))
    assert steps[-1] >= SMALL.total_steps > steps[-2]
    evaluated = [record["steps"] for record in records if "eval/return_mean" in record]
    assert [s // 1000 for s in evaluated] == [1, 2, 3, 4]
    assert {"losses/policy", "intrinsic/reward_mean", "eval/length_mean"} <= set().union(*records)
    policy, config = load_policy(uninterrupted)
    assert config == SMALL
    assert len(evaluate(policy, config.task, episodes=2, engine="fast").returns) == 2


@pytest.mark.parametrize("method", ["bebold", "bebold-count", "none"])
def test_a_longer_run_goes_on_exactly_where_the_shorter_stopped(method, tmp_path):
    config = replace(SMALL, method=method, total_steps=2000)
    whole = train(config, root=tmp_path / "whole", quiet=True)
    half = train(replace(config, total_steps=1000), root=tmp_path / "half", quiet=True)
    assert len(metrics(half)) < len(metrics(whole))
    resume(half, total_steps=2000, quiet=True)
    assert metrics(half) == metrics(whole)
    with (half / "weights.safetensors").open("rb") as a, (whole / "weights.safetensors").open("rb") as b:
        assert a.read() == b.read()


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_any_moment_and_resumed_equals_uninterrupted(workers, uninterrupted, tmp_path):
    config = replace(SMALL, workers=workers)
    whole = uninterrupted if workers == 1 else train(config, root=tmp_path / "whole", quiet=True)
    process = start(config, tmp_path / "killed")
    folder = tmp_path / "killed/KCS3R3/bebold/3"
    wait_for_lines(folder, 4, process)
    process.kill()
    process.wait()
    process.stderr.close()
    interrupted = len(metrics(folder))
    assert interrupted < len(metrics(whole))
    resume(folder, quiet=True)
    assert metrics(folder) == metrics(whole)


def test_a_signal_saves_then_stops(tmp_path):
    config = replace(SMALL, total_steps=10**9, checkpoint_interval=1000.0)
    process = start(config, tmp_path)
    folder = tmp_path / "KCS3R3/bebold/3"
    wait_for_lines(folder, 3, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) != 0
    assert "bebold resume" in process.stderr.read()
    process.stderr.close()
    done = len(metrics(folder))
    shorter = resume(folder, total_steps=metrics(folder)[-1]["steps"] + 500, quiet=True)
    assert len(metrics(shorter)) > done


def test_python_callers_see_the_interruption(tmp_path, monkeypatch):
    module = importlib.import_module("bebold.training")
    update = module.Trainer.update

    def interrupt(trainer):
        os.kill(os.getpid(), signal.SIGINT)
        return update(trainer)

    monkeypatch.setattr(module.Trainer, "update", interrupt)
    with pytest.raises(Interrupted) as caught:
        train(SMALL, root=tmp_path, quiet=True)
    assert caught.value.signum == signal.SIGINT
    assert list((caught.value.folder / "checkpoints").iterdir())


def test_a_dead_worker_is_named_and_nothing_is_lost(tmp_path):
    config = replace(SMALL, workers=2, total_steps=10**9)
    process = start(config, tmp_path)
    folder = tmp_path / "KCS3R3/bebold/3"
    wait_for_lines(folder, 3, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    assert "worker 1 died (signal 9)" in process.stderr.read()
    process.stderr.close()
    done = len(metrics(folder))
    resume(folder, total_steps=metrics(folder)[-1]["steps"] + 300, quiet=True)
    assert len(metrics(folder)) > done


def test_workers_die_with_their_parent(tmp_path):
    process = start(replace(SMALL, workers=2, total_steps=10**9), tmp_path)
    wait_for_lines(tmp_path / "KCS3R3/bebold/3", 2, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.wait()
    process.stderr.close()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_learn_one_policy(tmp_path):
    """After training, each worker's copy of the policy and of the predictor is the same."""
    folder = train(replace(SMALL, workers=2, total_steps=1000), root=tmp_path, quiet=True)
    with Run.open(folder) as run:
        one, other = run.load()["shards"]
    for name, tensor in one["learner"]["policy"].items():
        assert torch.equal(tensor, other["learner"]["policy"][name])
    for name, tensor in one["intrinsic"].items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(tensor, other["intrinsic"][name])
    assert not torch.equal(one["collector"]["obs"]["image"], other["collector"]["obs"]["image"])


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(tmp_path):
    folder = train(replace(SMALL, total_steps=500), root=tmp_path, quiet=True)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("extrinsic_scale: 10.0", "extrinsic_scale: 1.0e+300"))
    before = sorted(path.name for path in (folder / "checkpoints").iterdir())
    with pytest.raises(RunError, match="lower the learning rate"):
        resume(folder, total_steps=10**6, quiet=True)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == before


def test_a_second_run_in_the_same_folder_is_refused(uninterrupted):
    with pytest.raises(UsageError, match="bebold resume"):
        train(SMALL, root=uninterrupted.parents[2], quiet=True)


def test_it_learns(tmp_path):
    """A task that takes a few thousand steps: the trained policy beats the untrained one by far."""
    config = replace(
        SMALL,
        task="MiniGrid-Empty-5x5-v0",
        method="none",
        num_envs=32,
        total_steps=40_000,
        ppo=PPOConfig(minibatches=2, learning_rate=2e-3),
        evaluation=EvaluationConfig(interval=0),
        checkpoint_interval=1000.0,
    )
    policy, _ = load_policy(train(config, root=tmp_path, quiet=True))
    assert evaluate(policy, config.task, episodes=32, engine="fast").mean > 0.8
