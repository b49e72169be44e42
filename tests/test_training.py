"""Training end to end, small: it learns, it repeats itself, and an interruption changes nothing."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small import SMALL

from bebold.config import (
    EvaluationConfig,
    IMPALAConfig,
    PPOConfig,
)
from bebold.errors import RunError, UsageError
from bebold.evaluation import evaluate, load_policy
from bebold.interrupts import Interrupted
from bebold.parallel import Workers
from bebold.runs import Run
from bebold.settings import resolve
from bebold.trainer import Trainer
from bebold.training import resume, train

CLOCKS = ("time/", "charts/steps_per_second")


def metrics(folder):
    """All records, without what the clock decides."""
    lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not key.startswith(CLOCKS)} for line in lines]


def start(config, root, environment=None):
    """Train in a process of its own, which can be killed."""
    code = (
        "import sys, yaml; from bebold.settings import from_dict; from bebold.config import TrainConfig; "
        "from bebold.training import train; train(from_dict(TrainConfig, yaml.safe_load(sys.argv[1]), 'here'), "
        "root=sys.argv[2], quiet=True)"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(config)), str(root)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for_lines(folder, count, process):
    deadline = time.monotonic() + 120
    path = folder / "metrics.jsonl"
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children_of(process):
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def is_gone(pid):
    """Ended, even if nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return train(replace(SMALL, total_steps=500), root=tmp_path_factory.mktemp("finished"), quiet=True)


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
    assert config == resolve(SMALL)
    assert len(evaluate(policy, config.task, episodes=2, engine="fast").returns) == 2


@pytest.mark.parametrize(
    ("method", "learner", "lag"),
    [
        ("bebold", "ppo", 0),
        ("bebold-count", "ppo", 1),
        ("none", "ppo", 0),
        ("none", "impala", 0),
        ("bebold", "impala", 2),
        ("amigo", "ppo", 1),
        ("amigo", "impala", 0),
    ],
)
def test_a_longer_run_goes_on_exactly_where_the_shorter_stopped(method, learner, lag, tmp_path):
    impala = IMPALAConfig(learning_rate_decay="none")
    config = replace(SMALL, method=method, learner=learner, policy_lag=lag, impala=impala, total_steps=2000)
    if method == "amigo":  # goals end, and the teacher learns
        config = replace(config, max_episode_steps=20)
    whole = train(config, root=tmp_path / "whole", quiet=True)
    half = train(replace(config, total_steps=1000), root=tmp_path / "half", quiet=True)
    assert len(metrics(half)) < len(metrics(whole))
    resume(half, total_steps=2000, quiet=True)
    assert metrics(half) == metrics(whole)
    assert (method == "amigo") == any("intrinsic/teacher_loss" in record for record in metrics(half))
    one, other = (load_policy(folder)[0].state_dict() for folder in (half, whole))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("decaying", ["learning rate", "entropy", "bonus"])
def test_decay_goes_on_where_it_stopped(decaying, tmp_path, monkeypatch):
    config = replace(SMALL, total_steps=2000)
    if decaying == "learning rate":
        config = replace(config, ppo=replace(SMALL.ppo, learning_rate_decay="linear"))
    elif decaying == "entropy":
        config = replace(config, ppo=replace(SMALL.ppo, entropy_decay="linear"))
    else:
        config = replace(config, intrinsic=replace(SMALL.intrinsic, coefficient_decay="linear"))
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "finished", property(lambda trainer: trainer.steps >= 1000))
        stopped = train(config, root=tmp_path / "stopped", quiet=True)
    assert metrics(stopped)[-1]["steps"] < 1500
    resume(stopped, quiet=True)
    whole = train(config, root=tmp_path / "whole", quiet=True)
    assert metrics(stopped) == metrics(whole)
    constant = train(replace(SMALL, total_steps=2000), root=tmp_path / "constant", quiet=True)
    assert metrics(constant) != metrics(whole)


def test_the_learner_is_given_less_and_less_of_the_bonus(monkeypatch):
    intrinsic = replace(SMALL.intrinsic, coefficient_decay="linear", bonus_share=0.25)
    config = replace(SMALL, total_steps=2000, intrinsic=intrinsic)
    trainer = Trainer(resolve(config), Workers())
    paid, given = [], []
    reward, update = trainer.intrinsic.reward, trainer.learner.update
    monkeypatch.setattr(trainer.intrinsic, "reward", lambda rollout: paid.append(reward(rollout)) or paid[-1])
    monkeypatch.setattr(
        trainer.learner, "update", lambda rollout, bonus, **rest: given.append(bonus) or update(rollout, bonus, **rest)
    )
    steps = []
    for _ in range(4):
        steps.append(trainer.steps)
        trainer.update()
    for before, whole, part in zip(steps, paid, given, strict=True):
        assert whole.sum() > 0
        torch.testing.assert_close(part, max(0.0, 1 - before / 500) * whole)
    assert 0 < steps[1] < 500 < steps[-1]


def test_training_episodes_can_be_cut_short():
    trainer = Trainer(resolve(replace(SMALL, max_episode_steps=5)), Workers())
    stats = trainer.update()
    assert stats["charts/episodes"] > 0 and stats["charts/episodic_length"] <= 5


def test_environments_begin_out_of_step_where_the_method_asks():
    def times(config, worker=None):
        trainer = Trainer(resolve(config), worker or Workers())
        return trainer.pipeline.collector.envs.observe()[1]["elapsed_steps"].tolist()

    amigo = replace(SMALL, method="amigo", max_episode_steps=50)
    found = times(amigo)
    assert min(found) >= 0 and max(found) < 50 and len(set(found)) > SMALL.num_envs / 2
    assert times(amigo) == found and times(replace(amigo, seed=4)) != found
    halves = [times(replace(amigo, workers=2), SimpleNamespace(size=2, rank=rank)) for rank in range(2)]
    assert halves[0] + halves[1] == found
    assert not any(times(replace(amigo, staggered=False))) and not any(times(SMALL))
    assert any(times(replace(SMALL, staggered=True)))


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_any_moment_and_resumed_equals_uninterrupted(workers, tmp_path):
    config = replace(SMALL, workers=workers, total_steps=10**6)
    process = start(config, tmp_path / "killed")
    folder = tmp_path / "killed/KCS3R3/bebold/3"
    wait_for_lines(folder, 4, process)
    process.kill()
    process.wait()
    process.stderr.close()
    enough = metrics(folder)[-1]["steps"] + 500
    resume(folder, total_steps=enough, quiet=True)
    whole = train(replace(config, total_steps=enough), root=tmp_path / "whole", quiet=True)
    assert metrics(folder) == metrics(whole)


@pytest.mark.parametrize("moment", ["before the first checkpoint", "while writing one", "before the weights"])
def test_killed_while_saving(moment, tmp_path):
    """The folder as such a kill leaves it."""
    folder = train(replace(SMALL, total_steps=1000), root=tmp_path / "killed", quiet=True)
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    if moment == "before the first checkpoint":
        for path in (folder / "checkpoints").iterdir():
            path.unlink()
        (folder / "weights.safetensors").unlink()
        (folder / "summary.json").unlink()
    elif moment == "while writing one":
        newest.rename(newest.with_name(newest.name + ".tmp"))
    else:
        (folder / "weights.safetensors").write_bytes(b"older")
    resume(folder, total_steps=2000, quiet=True)
    whole = train(replace(SMALL, total_steps=2000), root=tmp_path / "whole", quiet=True)
    assert metrics(folder) == metrics(whole)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_signal_to_all_processes_saves_then_stops(workers, tmp_path):
    config = replace(SMALL, workers=workers, total_steps=10**9, checkpoint_interval=1000.0)
    process = start(config, tmp_path)
    folder = tmp_path / "KCS3R3/bebold/3"
    wait_for_lines(folder, 3, process)
    for pid in (*children_of(process), process.pid):
        os.kill(pid, signal.SIGTERM)
    assert process.wait(timeout=60) != 0
    assert "bebold resume" in process.stderr.read()
    process.stderr.close()
    assert len(list((folder / "checkpoints").iterdir())) == 1
    done = metrics(folder)
    resume(folder, total_steps=done[-1]["steps"] + 500, quiet=True)
    assert metrics(folder)[: len(done)] == done
    assert len(metrics(folder)) > len(done)


def test_python_callers_see_the_interruption(tmp_path, monkeypatch):
    update = Trainer.update

    def interrupt(trainer):
        os.kill(os.getpid(), signal.SIGINT)
        return update(trainer)

    monkeypatch.setattr(Trainer, "update", interrupt)
    with pytest.raises(Interrupted) as caught:
        train(SMALL, root=tmp_path, quiet=True)
    assert caught.value.signum == signal.SIGINT
    assert list((tmp_path / "KCS3R3/bebold/3/checkpoints").iterdir())


def test_a_dead_worker_is_named_and_nothing_is_lost(tmp_path):
    config = replace(SMALL, workers=2, total_steps=10**9)
    process = start(config, tmp_path)
    folder = tmp_path / "KCS3R3/bebold/3"
    wait_for_lines(folder, 3, process)
    for child in children_of(process):
        os.kill(child, signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    assert "worker 1 died (signal 9)" in process.stderr.read()
    process.stderr.close()
    done = len(metrics(folder))
    resume(folder, total_steps=metrics(folder)[-1]["steps"] + 300, quiet=True)
    assert len(metrics(folder)) > done


def test_workers_die_with_their_parent(tmp_path):
    process = start(replace(SMALL, workers=2, total_steps=10**9), tmp_path)
    wait_for_lines(tmp_path / "KCS3R3/bebold/3", 2, process)
    children = children_of(process)
    assert children
    process.kill()
    process.wait()
    process.stderr.close()
    deadline = time.monotonic() + 20
    while not all(is_gone(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_learn_one_policy_from_different_levels(tmp_path):
    """That their policies are equal is checked at every save."""
    folder = train(replace(SMALL, workers=2, total_steps=1000), root=tmp_path, quiet=True)
    with Run.open(folder) as run:
        one, other = run.load()["collectors"]
    assert not torch.equal(one["obs"]["image"], other["obs"]["image"])


def test_workers_share_one_teacher(tmp_path):
    """Their policies, which are equal at every save, hold it."""
    config = replace(SMALL, method="amigo", task="MiniGrid-Empty-5x5-v0", workers=2, total_steps=1000)
    folder = train(config, root=tmp_path, quiet=True)
    assert any("intrinsic/teacher_loss" in record for record in metrics(folder))
    with Run.open(folder) as run:
        state = run.load()
    one, other = state["collectors"]
    assert not torch.equal(one["obs"]["goal"], other["obs"]["goal"])
    weights = load_policy(folder)[0].guide.state_dict()
    untrained = Trainer(resolve(replace(config, workers=1)), Workers()).policy.guide.state_dict()
    assert not torch.equal(weights["choice.weight"], untrained["choice.weight"])
    assert all(torch.equal(state["intrinsic"][f"novelty.teacher.{name}"], x) for name, x in weights.items())


def test_the_whole_grid_is_shown_to_those_who_ask():
    small = replace(SMALL, num_envs=4)
    for method, names in {"bebold": {"image"}, "amigo": {"grid", "goal", "image"}}.items():
        trainer = Trainer(resolve(replace(small, method=method)), Workers())
        assert trainer.policy.needs == names
        assert trainer.pipeline.collector.envs.full_grid == ("grid" in names)


def test_workers_that_drift_apart_are_found_out():
    class Drifting(Workers):
        def gather(self, tensor):
            return torch.cat((tensor, tensor + 1e-6))

    trainer = Trainer(resolve(SMALL), Workers())
    trainer.workers = Drifting(0, 2)
    with pytest.raises(RunError, match="drifted apart"):
        trainer.state()


def test_workers_under_torchrun(tmp_path):
    """Two processes that torch.distributed describes to each other, as on two machines, and one of them killed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    config = replace(SMALL, workers=2, total_steps=1500)
    processes = [start(config, tmp_path, environment | {"RANK": str(rank)}) for rank in range(2)]
    for process in processes:
        assert process.wait(timeout=120) == 0, process.stderr.read()
        process.stderr.close()
    assert metrics(tmp_path / "KCS3R3/bebold/3") == metrics(train(config, root=tmp_path / "own", quiet=True))


def test_training_from_another_thread(tmp_path):
    with ThreadPoolExecutor() as pool:
        folder = pool.submit(train, replace(SMALL, total_steps=500), root=tmp_path, quiet=True).result()
    assert metrics(folder)


def test_it_stops_when_solved_and_can_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("bebold.trainer.solved_threshold", lambda task: 0.0)
    config = replace(SMALL, total_steps=10**6, stop_when_solved=True)
    folder = train(config, root=tmp_path, quiet=True)
    steps = metrics(folder)[-1]["steps"]
    assert 3000 <= steps < 3500  # the third evaluation in a row
    assert json.loads((folder / "summary.json").read_text())["steps_to_solve"] < 1500
    resume(folder, total_steps=steps + 500, quiet=True)
    assert metrics(folder)[-1]["steps"] > steps


def test_it_says_that_it_gave_up(tmp_path, caplog):
    folder = train(replace(SMALL, task="KCS6R3", total_steps=10**6, give_up_at=1500), root=tmp_path)
    steps = metrics(folder)[-1]["steps"]
    assert 4000 <= steps < 5000  # the fourth evaluation
    assert f"{folder} gave up at {steps:,} steps: its last evaluations earned nothing" in caplog.text


def test_a_resumed_run_obeys_the_settings_of_today(tmp_path):
    """Lowering the learning rate in config.yaml is the mend for a loss that is not finite."""
    folder = train(replace(SMALL, total_steps=500), root=tmp_path, quiet=True)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("learning_rate: 0.001", "learning_rate: 1.0e-07"))
    resume(folder, total_steps=1000, quiet=True)
    with Run.open(folder) as run:
        state = run.load()
    assert state["learner"]["optimiser"]["param_groups"][0]["lr"] == 1e-7


@pytest.mark.parametrize(
    ("old", "new", "error", "words"),
    [
        ("hidden: 16", "hidden: 24", RunError, "does not belong to these settings"),
        ("num_envs: 16", "num_envs: 32", RunError, "does not belong to these settings"),
        ("method: bebold", "method: bebold-count", RunError, "does not belong to these settings"),
        ("workers: 1", "workers: 2", RunError, "is of 1 workers"),
        ("discount: 0.99", "discount: 9", UsageError, "discount"),
        ("num_envs: 16", "num_envs: 7", UsageError, "multiple"),
        ("task: KCS3R3", "task: planted:Module-v0", UsageError, "planted:Module-v0"),
        ("device: cpu", "device: cuda", UsageError, "no CUDA device"),
    ],
)
def test_settings_that_do_not_fit_the_checkpoint_are_refused(old, new, error, words, finished, tmp_path):
    if "cuda" in new and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    text = (folder / "config.yaml").read_text()
    assert old in text
    (folder / "config.yaml").write_text(text.replace(old, new, 1))
    before = sorted(path.name for path in (folder / "checkpoints").iterdir())
    with pytest.raises(error, match=words):
        resume(folder, total_steps=2000, quiet=True)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == before


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


@pytest.mark.parametrize(("learner", "num_envs", "steps"), [("ppo", 32, 40_000), ("impala", 16, 60_000)])
def test_it_learns(learner, num_envs, steps, tmp_path):
    """A task that takes a few thousand steps: the trained policy beats the untrained one by far."""
    config = replace(
        SMALL,
        task="MiniGrid-Empty-5x5-v0",
        method="none",
        learner=learner,
        num_envs=num_envs,
        total_steps=steps,
        ppo=PPOConfig(minibatches=2, learning_rate=2e-3),
        impala=IMPALAConfig(minibatches=2),
        evaluation=EvaluationConfig(interval=0),
        checkpoint_interval=1000.0,
    )
    policy, _ = load_policy(train(config, root=tmp_path, quiet=True))
    assert evaluate(policy, config.task, episodes=32, engine="fast").mean > 0.8
