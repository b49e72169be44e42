"""Many runs: which ones a file asks for, and that each is done once, whatever happens in between."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bebold import report
from bebold import sweep as module
from bebold.cli import main
from bebold.config import IntrinsicConfig, PPOConfig, TrainConfig
from bebold.errors import RunError, UsageError
from bebold.experiments.experiment import REPORTED_SEEDS
from bebold.plan import read_sweep
from bebold.runs import run_folder
from bebold.settings import from_dict, resolve, validate
from bebold.sweep import complete, is_done, sweep
from bebold.training import train

TASK = "MiniGrid-Empty-5x5-v0"
SMALL: dict[str, Any] = {
    "task": TASK,
    "total_steps": 3000,
    "num_envs": 16,
    "unroll": 16,
    "checkpoint_interval": 0.0,
    "network": {"hidden": 16, "memory": 16},
    "ppo": {"minibatches": 2},
    "evaluation": {"interval": 1000, "episodes": 4},
}
CONFIG = from_dict(TrainConfig, SMALL, "this test")
LONG = 20_000
"""Steps of a run that is stopped before its end."""
OFTEN = replace(CONFIG.evaluation, interval=500)


def write(path: Path, runs: list[dict[str, Any]], **defaults: Any) -> Path:
    path.write_text(yaml.safe_dump({"defaults": defaults, "runs": runs}, sort_keys=False))
    return path


def metrics(folder: Path) -> list[dict[str, Any]]:
    """All records, without what the clock decides."""
    clocks = ("time/", "charts/steps_per_second")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not key.startswith(clocks)} for line in lines]


def test_lists_are_multiplied_out_and_entries_override_defaults(tmp_path: Path) -> None:
    file = write(
        tmp_path / "runs.yaml",
        [
            {"task": ["KCS3R3", "MRN6"], "seed": [1, 2]},
            {"method": "episodic", "seed": 3, "ppo": {"entropy": 0.002}},
        ],
        total_steps=5000,
        ppo={"clip": 0.1, "entropy": 0.001},
    )
    base = TrainConfig(total_steps=5000, ppo=PPOConfig(clip=0.1, entropy=0.001))
    assert read_sweep(file) == [
        replace(base, task="KCS3R3", seed=1),
        replace(base, task="KCS3R3", seed=2),
        replace(base, task="MRN6", seed=1),
        replace(base, task="MRN6", seed=2),
        replace(base, method="episodic", seed=3, ppo=PPOConfig(clip=0.1, entropy=0.002)),
    ]


def test_labels_name_what_differs(tmp_path: Path) -> None:
    entry = {
        "label": "ent{ppo.entropy}_beta{intrinsic.coefficient}",
        "ppo": {"entropy": ["1e-4", 0.001]},
        "intrinsic": {"coefficient": [0.01, 0.1]},
    }
    configs = read_sweep(write(tmp_path / "runs.yaml", [entry]))
    assert [config.name for config in configs] == [
        "ent0.0001_beta0.01",
        "ent0.0001_beta0.1",
        "ent0.001_beta0.01",
        "ent0.001_beta0.1",
    ]
    assert configs[1].ppo.entropy == 1e-4 and configs[1].intrinsic.coefficient == 0.1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("runs: [", "is no sweep that can be read"),
        ("- task: KCS3R3", "has no list `runs`"),
        ("runs: []", "has no list `runs`"),
        ("runs: [KCS3R3]", "run 1: settings have names, such as task: KCS3R3"),
        ("{runs: [{task: KCS3R3}], seeds: 3}", "has 'seeds' beside `defaults` and `runs`"),
        ("{defaults: [1], runs: [{task: KCS3R3}]}", "run 1: settings have names"),
        ("runs: [{sede: 1}]", "run 1 has the unknown setting sede; did you mean seed"),
        ("runs: [{task: KCS3R3}, {ppo: {entropi: [1, 2]}}]", "run 2 has the unknown setting ppo.entropi"),
        ("runs: [{label: 'a{zzz}'}]", "run 1: the label a{zzz} names a setting that there is not"),
        ("runs: [{task: KCS9R9}]", "KCS9R9"),
        ("runs: [{task: KCS3R3}, {task: MiniGrid-KeyCorridorS3R3-v0}]", "two runs would share the folder .*label"),
        ("runs: [{num_envs: 6, workers: 4}]", "num_envs is 6; it must be a multiple"),
        ("runs: [{task: KCS3R3}, {seed: []}]", "run 2 has an empty list, and so asks for no run"),
        ("runs: [&a {ppo: *a}]", "run 1 contains itself; write its settings out"),
        ("runs: " + "[" * 5000, "is no sweep that can be read"),
        ("runs: [{ppo: {entropy: 1" + "0" * 400 + "}}]", "ppo.entropy is 1000"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str) -> None:
    file = tmp_path / "runs.yaml"
    file.write_text(text)
    assert main(["sweep", str(file), "--root", str(tmp_path / "runs"), "--at-once", "1"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("bebold: ") and said.count("\n") == 1
    assert re.search(sentence, said)
    assert not (tmp_path / "runs").exists()


def test_a_missing_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(tmp_path / "none.yaml")]) == 2
    assert f"there is no file {tmp_path / 'none.yaml'}; docs/sweeps.md" in capsys.readouterr().err


def test_every_run_is_trained_judged_and_done_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [replace(CONFIG, seed=seed) for seed in (1, 2)]
    folders = sweep(configs, tmp_path, at_once=2, levels=8, quiet=True)
    assert folders == [tmp_path / TASK / "bebold" / str(seed) for seed in (1, 2)]
    for folder in folders:
        last = metrics(folder)[-1]["steps"]
        assert last >= 3000
        for name, greedy in {"evaluation.json": False, "evaluation-greedy.json": True}.items():
            verdict = json.loads((folder / name).read_text())
            assert (verdict["steps"], verdict["greedy"], verdict["episodes"]) == (last, greedy, 8)
    said = capsys.readouterr().err
    assert "2 runs, 0.0 M steps in all, 2 at a time; 0 done before" in said and "(2 of 2 done)" in said

    monkeypatch.setattr(module.subprocess, "Popen", None)  # nothing may be started
    assert sweep(configs, tmp_path, at_once=2, levels=8, quiet=True) == folders


def finish(config: TrainConfig, root: Path, levels: int = 2) -> Path:
    """What a sweep has a process of its own do for a run that is not done, in this one."""
    config = resolve(replace(config, workers=1))
    if not is_done(config, root, levels):
        complete(config, root, levels)
    assert is_done(config, root, levels)
    return run_folder(config, root)


def test_a_run_without_hope_stops_and_can_go_on(tmp_path: Path) -> None:
    hopeless = replace(CONFIG, task="MRN7S8", give_up_at=1500, evaluation=OFTEN)
    folder = finish(hopeless, tmp_path)
    before = metrics(folder)
    assert [line["eval/return_mean"] for line in before if "eval/return_mean" in line] == [0.0] * 4
    assert 2000 <= before[-1]["steps"] < 2500
    assert json.loads((folder / "evaluation.json").read_text())["steps"] == before[-1]["steps"]
    assert not (folder / "evaluation-greedy.json").exists()
    finish(hopeless, tmp_path)
    assert metrics(folder) == before

    finish(replace(hopeless, give_up_at=0), tmp_path)
    after = metrics(folder)
    assert after[-1]["steps"] >= 3000 and after[: len(before)] == before
    assert (folder / "evaluation-greedy.json").exists()


def test_a_run_that_is_gone_on_with_gives_up_too(tmp_path: Path) -> None:
    hopeless = replace(CONFIG, task="MRN7S8", total_steps=1000, evaluation=OFTEN)
    folder = finish(hopeless, tmp_path)
    finish(replace(hopeless, total_steps=4000, give_up_at=1500), tmp_path)
    taken = metrics(folder)[-1]["steps"]
    assert 3000 <= taken < 3500  # the fourth evaluation since more was asked for
    result = report.read_result(folder)
    assert result.gave_up and [total for _, total in result.totals_before] == [1000]

    # With more steps everything falls later: it may hope again, and gives up again.
    longer = replace(hopeless, total_steps=8000, give_up_at=1500)
    finish(longer, tmp_path)
    again = metrics(folder)[-1]["steps"]
    assert taken + 2000 <= again < taken + 2500
    assert report.read_result(folder).gave_up
    assert report.read_result(folder).totals_before[-1] == (taken, 4000)
    finish(longer, tmp_path)
    assert metrics(folder)[-1]["steps"] == again


def test_a_run_with_some_reward_does_not_give_up(tmp_path: Path) -> None:
    folder = finish(replace(CONFIG, give_up_at=1500, evaluation=OFTEN), tmp_path)
    assert metrics(folder)[-1]["steps"] >= 3000


def test_more_steps_are_gone_on_with_and_other_settings_refused(tmp_path: Path) -> None:
    folder = finish(CONFIG, tmp_path)
    before = metrics(folder)
    finish(replace(CONFIG, total_steps=3500), tmp_path)
    after = metrics(folder)
    assert len(after) > len(before) and after[: len(before)] == before
    assert json.loads((folder / "evaluation.json").read_text())["steps"] == after[-1]["steps"]

    # What was gone on with and then lost its last steps is no longer at its end, whatever was written at that end.
    (folder / "evaluation.json").unlink()
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"steps": after[-1]["steps"] + 256}) + "\n")
    finish(replace(CONFIG, total_steps=3500, task=f"bebold/{TASK}", preset="paper"), tmp_path)
    assert metrics(folder) == after
    assert json.loads((folder / "evaluation.json").read_text())["steps"] == after[-1]["steps"]

    other = replace(CONFIG, intrinsic=IntrinsicConfig(alpha=1.0))
    with pytest.raises(UsageError, match=r"holds a run with intrinsic.alpha 0.5, not 1.0; move it away"):
        sweep([other], tmp_path, at_once=1, levels=8, quiet=True)
    assert metrics(folder) == after


def test_runs_that_fail_stop_no_other(tmp_path: Path) -> None:
    """One is in use, one cannot be written, and the third is trained."""
    held, blocked, fine = (tmp_path / TASK / "bebold" / seed for seed in "123")
    held.mkdir(parents=True)
    (blocked / "log.txt").mkdir(parents=True)
    runs = [replace(CONFIG, seed=seed) for seed in (1, 2, 3)]
    with (held / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match=r"2 of 3 runs failed, the first with: .*is in use by .*log.txt"):
            sweep(runs, tmp_path, at_once=1, levels=8, quiet=True)
    assert (fine / "evaluation-greedy.json").exists()
    with pytest.raises(RunError, match=r"1 of 2 runs failed, the first with: cannot write .*bebold/2"):
        sweep(runs[:2], tmp_path, at_once=1, levels=8, quiet=True)
    assert (held / "evaluation-greedy.json").exists()


def test_a_run_that_the_system_kills_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_and_kill(job: Any, root: Path, *, quiet: bool) -> None:
        job.folder.mkdir(parents=True)
        job.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        job.process.kill()

    monkeypatch.setattr(module._Job, "start", start_and_kill)
    with pytest.raises(RunError, match=r"1 of 1 runs failed, the first with: ended by SIGKILL, out of memory\?"):
        sweep([CONFIG], tmp_path, at_once=1, levels=8, quiet=True)


def test_a_module_beside_the_user_is_not_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('the wrong yaml')")
    monkeypatch.chdir(tmp_path)
    sweep([replace(CONFIG, total_steps=300)], tmp_path, at_once=1, levels=1, quiet=True)


@pytest.mark.parametrize(("cores", "at_once", "workers"), [(6, 2, 2), (12, 4, 2), (2, 2, 1), (1, 3, 1)])
def test_cores_are_shared_evenly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, at_once: int, workers: int
) -> None:
    asked: list[TrainConfig] = []

    def note(jobs: list[Any]) -> None:
        asked.extend(job.config for job in jobs)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "core_count", lambda: cores)
    monkeypatch.setattr(module, "_refuse_clashes", note)
    with pytest.raises(KeyboardInterrupt):
        sweep([TrainConfig()], tmp_path, at_once=at_once, quiet=True)
    assert [config.workers for config in asked] == [workers]


def start(file: Path, root: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "bebold.cli",
        "sweep",
        str(file),
        "--root",
        str(root),
        "--at-once",
        "2",
        "--levels",
        "8",
        "--quiet",
    ]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def wait_for_records(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not (folder / "metrics.jsonl").exists() or len(metrics(folder)) < 5:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


def begin(tmp_path: Path) -> tuple[Path, subprocess.Popen[str], list[Path]]:
    """A sweep of two runs in a process of its own, and their folders when both have made a few updates."""
    file = write(tmp_path / "runs.yaml", [{"seed": [1, 2]}], **(SMALL | {"total_steps": LONG}))
    process = start(file, tmp_path)
    folders = [tmp_path / TASK / "bebold" / seed for seed in ("1", "2")]
    for folder in folders:
        wait_for_records(folder, process)
    return file, process, folders


def test_a_killed_sweep_takes_its_runs_along_and_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    file, process, folders = begin(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    for folder in folders:  # the kernel lets go of a folder when its process is gone
        with (folder / "lock").open("r") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
    assert all(metrics(folder)[-1]["steps"] < LONG for folder in folders)

    assert main(["sweep", str(file), "--root", str(tmp_path), "--at-once", "2", "--levels", "8", "--quiet"]) == 0
    whole = train(replace(CONFIG, seed=2, workers=1, total_steps=LONG), root=tmp_path / "whole", quiet=True)
    assert metrics(folders[1]) == metrics(whole)
    assert all((folder / "evaluation-greedy.json").exists() for folder in folders)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_saves_its_runs(tmp_path: Path, signum: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGINT)
    if signum == signal.SIGTERM:  # as under nohup in a script
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _, process, folders = begin(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    process.send_signal(signum)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signum
    assert f"stopped by {signum.name}; go on with the same command" in said
    for folder in folders:
        newest = max((folder / "checkpoints").iterdir())
        assert int(newest.stem) == metrics(folder)[-1]["steps"] < LONG


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.yaml")), ids=lambda path: path.stem)
def test_lists_of_trials_are_possible_and_leave_the_reported_seeds_alone(path: Path) -> None:
    runs = read_sweep(path)
    for run in runs:
        validate(run)
    assert len({run_folder(run, path.parent) for run in runs}) == len(runs)
    assert {run.seed for run in runs}.isdisjoint(REPORTED_SEEDS)


def test_every_baseline_has_its_trials() -> None:
    runs = read_sweep(BENCHMARKS / "tuning.yaml")
    trials = Counter((run.method, run.task) for run in runs)
    methods = {method for method, _ in trials} - {"none"}
    assert methods == {"rnd", "ride", "icm", "amigo", "count", "episodic", "bebold-no-episodic"}
    assert min(trials[method, task] for method in methods for task in ("KCS3R3", "MRN6")) == 12
