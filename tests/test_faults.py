"""What can go wrong from outside: each is one sentence with the mend, the right exit code, nothing lost."""

from __future__ import annotations

import itertools
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch

from bebold import checkpoint
from bebold.cli import main
from bebold.config import TrainConfig
from bebold.runs import Run, read_metrics
from bebold.trainer import Trainer

SMALL = {
    "num-envs": 8,
    "unroll": 8,
    "workers": 1,
    "device": "cpu",
    "network.hidden": 8,
    "network.memory": 8,
    "ppo.minibatches": 2,
    "evaluation.interval": 0,
}


def train_arguments(root: Path, *more: str) -> list[str]:
    small = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    return ["train", "--root", str(root), "--total-steps", "200", "--quiet", *small, *more]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates with two checkpoints."""
    root = tmp_path_factory.mktemp("trained")
    assert main(train_arguments(root)) == 0
    folder = root / "KCS3R3" / "bebold" / "1"
    assert main(["resume", str(folder), "--total-steps", "400", "--quiet"]) == 0
    assert len(list((folder / "checkpoints").iterdir())) == 2
    return folder


@pytest.fixture
def run_folder(trained: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on stderr: one line of one sentence, and no traceback."""
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bebold: ")]
    assert len(said) == 1
    return said[0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--task", "KCS3R4"], "did you mean KCS3R3"),
        (["--task", "CartPole-v1"], "`bebold tasks` lists the MiniGrid tasks there are"),
        (["--method", "bebolt"], "there is no method 'bebolt'; did you mean bebold"),
        (["--num-envs", "0"], "num_envs is 0; it must be positive"),
        (
            ["--num-envs", "7"],
            "num_envs is 7; it must be a multiple of workers x ppo.minibatches = 1 x 2 = 2",
        ),
        (["--workers", "3"], "num_envs is 8; it must be a multiple"),
        (["--unroll", "-1"], "unroll is -1; it must be a number that is not negative"),
        (["--total-steps", "0"], "total_steps is 0"),
        (["--seed", "-1"], "seed is -1"),
        (["--seed", "1000"], "it must be below 1000"),
        (["--network.memory", "0"], "network.memory is 0"),
        (["--ppo.learning-rate", "nan"], "ppo.learning_rate is nan"),
        (["--ppo.discount", "1.1"], "ppo.discount is 1.1; it must lie between 0 and 1"),
        (["--checkpoint-interval", "-5"], "checkpoint_interval is -5"),
        (["--network.hidden", "100000000"], "network.hidden is 100,000,000; it must be at most 4,096"),
        (["--num-envs", "1000000"], "num_envs is 1,000,000; it must be at most"),
        (["--evaluation.episodes", "1000000000"], "evaluation.episodes is 1,000,000,000; it must be at most"),
        (["--intrinsic.count-capacity", "1000"], "intrinsic.count_capacity is 1000; it must be a power of two"),
        (["--stop-when-solved"], "stop_when_solved needs progress evaluations; set evaluation.interval"),
        (
            ["--stop-when-solved", "--evaluation.interval", "9", "--task", "MiniGrid-Empty-5x5-v0"],
            "stop_when_solved needs a return to reach, and the paper gives none for MiniGrid-Empty-5x5-v0",
        ),
        (
            ["--intrinsic.rnd.encoding", "raw"],
            "intrinsic.rnd.encoding is raw, which is of vectors, and MiniGrid shows images",
        ),
        (["--intrinsic.rnd.outputs", "1"], "that is always 0: give 2 or more"),
        pytest.param(
            ["--device", "cuda"],
            "no CUDA device is available; use --device cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
    ],
)
def test_impossible_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(train_arguments(tmp_path, *arguments)) == 2
    assert sentence in complaint(capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--ppo.entropi", "1"], "--ppo.entropy"),
        (["train", "--seed", "one"], "--seed"),
        (["train", "--device", "gpu"], "invalid choice 'gpu'"),
        (["trian"], "train"),
        ([], "train"),
        (["eval"], "RUN"),
    ],
)
def test_unknown_options(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err and captured.out == ""


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]])
def test_help_is_no_fault(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 0
    assert "usage: bebold" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["resume", "eval", "watch", "report"])
def test_there_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none") in complaint(capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    assert "name run folders, or folders that hold some" in complaint(capsys)


def test_fewer_steps_than_were_taken(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run_folder / "config.yaml").read_text()
    steps = int(read_metrics(run_folder)["steps"][-1])
    assert main(["resume", str(run_folder), "--total-steps", "3"]) == 2
    assert f"has taken {steps:,} steps already; total_steps is 3 and must be more" in complaint(capsys)
    assert (run_folder / "config.yaml").read_text() == before


@pytest.mark.parametrize("what", ["a record", "removed checkpoints", "those of an unfinished run"])
def test_nothing_to_go_on_from(run_folder: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    before = (run_folder / "metrics.jsonl").read_bytes()
    if what == "a record":
        shutil.rmtree(run_folder / "checkpoints")
        (run_folder / "summary.json").unlink()
    else:
        for path in (run_folder / "checkpoints").iterdir():
            path.unlink()
        if what == "those of an unfinished run":
            (run_folder / "summary.json").unlink()
    assert main(["resume", str(run_folder), "--total-steps", "9999", "--quiet"]) == 1
    assert f"{run_folder} has no checkpoint to go on from: it is a compact record, or" in complaint(capsys)
    assert (run_folder / "metrics.jsonl").read_bytes() == before


def test_resuming_what_is_finished_says_so(run_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["resume", str(run_folder)]) == 0
    assert "was finished, at " in caplog.text and "with total_steps it goes on" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["eval", "--episodes", "0"], "--episodes is 0"),
        (["eval", "--repaired"], "there are no repaired levels of KCS3R3: no ball blocks a door there; judge"),
        (["watch", "--episodes", "0"], "--episodes must be positive"),
        (["watch", "--level", str(10**20)], "--level between 0 and 1,000,000,000"),
        (["watch", "--fps", "1e-9"], "--fps between 0.1 and 1000"),
        (["report", "--out", ""], "names no file; give it a name"),
        (["report", "--out", "curves.jpg"], "'curves.jpg' has none of the endings .png, .svg, .pdf; name a picture"),
        (["report", "--aggregate", "all.txt"], "'all.txt' has none of the endings"),
        (["watch", "--out", "agent.avi"], "ends neither in .gif nor in .mp4"),
        (["watch", "--out", "agent.mp4"], "needs imageio-ffmpeg; `pip install imageio-ffmpeg` (the extra `mp4`), or"),
    ],
)
def test_impossible_looks(
    trained: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)  # as if it were not installed
    assert main([arguments[0], str(trained), *arguments[1:]]) == 2
    assert sentence in complaint(capsys)


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(train_arguments(tmp_path / "file")) == 1
    assert "cannot write" in complaint(capsys)


def test_a_run_is_there_already(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train_arguments(trained.parents[2])) == 2
    assert f"go on with `bebold resume {trained}`" in complaint(capsys)


def test_a_second_process_on_a_folder(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Run.open(trained):
        assert main(["resume", str(trained)]) == 1
        assert f"is in use by process {os.getpid()}; wait for it or stop it first" in complaint(capsys)
        assert main(train_arguments(trained.parents[2])) == 1
        assert "is in use by process" in complaint(capsys)


class Malicious:
    def __init__(self, victim: Path):
        self.victim = victim

    def __reduce__(self) -> tuple:
        return (open, (str(self.victim), "w"))


def test_a_damaged_newest_checkpoint(
    run_folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    newest = max((run_folder / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    assert main(["resume", str(run_folder), "--quiet"]) == 0
    assert f"{newest} is cut short" in caplog.text
    steps = read_metrics(run_folder)["steps"]
    assert steps[-1] >= 400 and list(steps) == sorted(set(steps))


@pytest.mark.parametrize("kind", ["truncated", "foreign", "code", "bare code", "no state", "no steps", "odd steps"])
def test_no_good_checkpoint(run_folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    victim = run_folder / "victim"
    for path in (run_folder / "checkpoints").iterdir():
        if kind == "truncated":
            path.write_bytes(path.read_bytes()[:-30])
        elif kind == "foreign":
            torch.save({"steps": 0, "shards": []}, path)
        elif kind in ("no state", "no steps", "odd steps"):
            state = {"no state": 3, "no steps": {}, "odd steps": {"steps": "many"}}[kind]
            torch.save({"magic": checkpoint.MAGIC, "version": checkpoint.VERSION, "state": state}, path)
        elif kind == "code":
            content = {"magic": checkpoint.MAGIC, "version": checkpoint.VERSION, "state": Malicious(victim)}
            torch.save(content, path)
        else:
            path.write_bytes(pickle.dumps(Malicious(victim)))
    before = (run_folder / "metrics.jsonl").read_bytes()
    assert main(["resume", str(run_folder), "--quiet"]) == 1
    assert "can be read; train anew" in complaint(capsys)
    assert not victim.exists()
    assert (run_folder / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("what", ["learner", "collectors"])
def test_a_checkpoint_of_something_else_changes_nothing(
    run_folder: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    for path in (run_folder / "checkpoints").iterdir():
        checkpoint.save(path, checkpoint.load(path) | {what: {}, "steps": 8})
    before = {name: (run_folder / name).read_bytes() for name in ("config.yaml", "metrics.jsonl")}
    assert main(["resume", str(run_folder), "--total-steps", "9999", "--quiet"]) == 1
    assert "the checkpoint does not " in complaint(capsys)
    assert {name: (run_folder / name).read_bytes() for name in before} == before


def test_settings_that_were_edited_badly(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_folder / "config.yaml"
    path.write_text(path.read_text().replace("  unroll:", "  unrol:"))
    assert main(["resume", str(run_folder)]) == 2
    assert "unknown setting unrol; did you mean unroll" in complaint(capsys)


def test_damaged_words_of_a_run(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (run_folder / "evaluation.json").write_text('{"steps": 4')
    path = run_folder / "metrics.jsonl"
    path.write_text("[]\n" + path.read_text())
    arguments = ["report", str(run_folder), "--out", str(tmp_path / "curve.png")]
    assert main(arguments) == 0
    assert "line 1 is no record of metrics and is left out" in caplog.text
    assert "evaluation.json is damaged and counts for nothing; `bebold eval` writes it anew" in caplog.text
    assert "KCS3R3" in capsys.readouterr().out


def test_a_record_in_the_place_of_its_run(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "curve.png"
    assert main(["report", str(trained), "--out", str(out), "--record", str(trained.parents[2])]) == 2
    assert "is the run itself, of which a record keeps little; name another --record" in complaint(capsys)
    assert not out.exists()


def test_what_a_report_cannot_read_or_write(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("", str(run_folder)):
        assert main(["report", str(run_folder), "--csv", place]) == 2
        assert "names no file; give it a name" in complaint(capsys)
        assert not Path("report.png").exists()
    assert main(["report", str(run_folder), "--record", "."]) == 0
    assert Path("KCS3R3/bebold/1/metrics.jsonl").exists() and Path("report.png").exists()
    capsys.readouterr()
    metrics = run_folder / "metrics.jsonl"
    metrics.unlink()
    metrics.mkdir()
    assert main(["report", str(run_folder)]) == 1
    assert f"cannot read {metrics} (Is a directory); mend its permissions or restore it" in complaint(capsys)


def test_a_run_that_never_began_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Run.create(TrainConfig(), tmp_path).close()
    assert main(["report", str(tmp_path)]) == 2
    assert f"there is no run in {tmp_path}" in complaint(capsys)


@pytest.mark.parametrize("kind", ["truncated", "text", "foreign", "other shapes", "not finite"])
def test_bad_weights(run_folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    path = run_folder / "weights.safetensors"
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-10])
    elif kind == "text":
        path.write_text("weights")
    elif kind == "foreign":
        safetensors.torch.save_file({"w": torch.zeros(3)}, path)
    else:
        weights, words = checkpoint.load_weights(path)
        not_finite = {name: x / 0 for name, x in weights.items()}
        checkpoint.save_weights(path, not_finite if kind == "not finite" else {"w": torch.zeros(3)}, words)
    assert main(["eval", str(run_folder)]) == 1
    assert str(path) in complaint(capsys)


def test_a_full_disk(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file may grow beyond 4 KiB: the metrics still fit, the next checkpoint does not."""
    (run_folder / "metrics.jsonl").write_text("")
    before = {path: path.read_bytes() for path in (run_folder / "checkpoints").iterdir()}
    arguments = ["resume", str(run_folder), "--total-steps", "450", "--quiet"]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        assert main(arguments) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = complaint(capsys)
    assert "cannot write" in said and "make room" in said
    assert {path: path.read_bytes() for path in (run_folder / "checkpoints").iterdir()} == before
    assert main(arguments) == 0


@contextmanager
def in_the_third_update(act: Callable[[Trainer], None]) -> Iterator[None]:
    """Something happens while training is under way."""
    update, updates = Trainer.update, itertools.count(1)

    def disturbed(trainer: Trainer) -> dict[str, float]:
        if next(updates) == 3:
            act(trainer)
        return update(trainer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "update", disturbed)
        yield


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: ..."),
    ],
)
def test_too_little_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    def fail(_: Trainer) -> None:
        raise error

    with in_the_third_update(fail):
        assert main(train_arguments(tmp_path, "--total-steps", "1000")) == 1
    assert complaint(capsys) == "bebold: out of memory: lower num_envs, unroll or the networks' widths"


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_save_and_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], signum: signal.Signals, code: int
) -> None:
    folder = tmp_path / "KCS3R3" / "bebold" / "1"
    with in_the_third_update(lambda trainer: os.kill(os.getpid(), signum)):
        assert main(train_arguments(tmp_path, "--total-steps", "100000000")) == code
    assert f"stopped by {signum.name}; go on with `bebold resume {folder}`" in complaint(capsys)
    steps = read_metrics(folder)["steps"]
    with Run.open(folder) as run:
        saved = run.load()
    assert len(steps) == 3 and saved is not None and saved["steps"] == steps[-1]


def test_a_loss_that_is_not_finite(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted((run_folder / "checkpoints").iterdir())
    path = run_folder / "config.yaml"
    path.write_text(path.read_text().replace("extrinsic_scale: 10.0", "extrinsic_scale: 1.0e+300"))
    assert main(["resume", str(run_folder), "--total-steps", "1000000", "--quiet"]) == 1
    assert "lower the learning rate" in complaint(capsys)
    assert sorted((run_folder / "checkpoints").iterdir()) == before


def test_a_dead_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = train_arguments(tmp_path, "--workers", "2", "--total-steps", "100000000")
    with in_the_third_update(lambda trainer: trainer.workers.children[0].kill()):
        assert main(arguments) == 1
    assert "worker 1 died (signal 9); go on from the last checkpoint with `bebold resume`" in complaint(capsys)


def test_a_reader_that_stops_reading() -> None:
    command = f"{sys.executable} -m bebold.cli tasks | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("id") and result.stderr == ""


def test_a_bug_keeps_its_traceback(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("bebold.judge.judge", fail)
    with pytest.raises(ValueError, match="a bug"):
        main(["eval", str(trained)])
