"""Checkpoints: what goes in comes out, and whatever is wrong with a file is one sentence."""

from __future__ import annotations

import errno
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

from bebold import checkpoint
from bebold.errors import RunError


def some_state() -> dict:
    network = torch.nn.Linear(3, 2)
    adam = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    adam.step()
    return {
        "steps": 7,
        "network": network.state_dict(),
        "adam": adam.state_dict(),
        "random": torch.get_rng_state(),
        "pcg64": 2**127 + 3,
        "nothing": None,
        "list": [1.5, (True, "a"), {3: torch.zeros(0)}],
    }


def assert_equal(left: object, right: object) -> None:
    if isinstance(left, torch.Tensor):
        assert isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    elif isinstance(left, dict):
        assert isinstance(right, dict) and list(left) == list(right)
        for key in left:
            assert_equal(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert type(left) is type(right) and len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_equal(a, b)
    else:
        assert left == right and type(left) is type(right)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    state = some_state()
    checkpoint.save(tmp_path / "a.pt", state)
    assert_equal(dict(state), checkpoint.load(tmp_path / "a.pt"))
    assert os.listdir(tmp_path) == ["a.pt"]


def test_a_view_is_saved_without_what_it_is_a_view_of(tmp_path: Path) -> None:
    large = torch.zeros(1_000_000)
    checkpoint.save(tmp_path / "a.pt", {"view": large[5:8]})
    assert (tmp_path / "a.pt").stat().st_size < 10_000
    assert_equal(checkpoint.load(tmp_path / "a.pt"), {"view": torch.zeros(3)})


@pytest.mark.parametrize(
    "value", [np.zeros(3), np.float64(1.0), {1, 2}, b"bytes", object(), Path("x"), np.random.default_rng()]
)
def test_what_needs_code_to_be_read_is_not_written(tmp_path: Path, value: object) -> None:
    with pytest.raises(TypeError, match=r"state\['deep'\]\[1\] is a "):
        checkpoint.save(tmp_path / "a.pt", {"deep": [0, value]})
    assert os.listdir(tmp_path) == []


def test_keys_are_plain(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the key"):
        checkpoint.save(tmp_path / "a.pt", {"a": {(1, 2): 3}})


class Malicious:
    """Unpickled by a careless reader, this makes a file."""

    def __init__(self, victim: Path):
        self.victim = victim

    def __reduce__(self) -> tuple:
        return (open, (str(self.victim), "w"))


def damage(path: Path, kind: str, victim: Path) -> None:
    content = path.read_bytes()
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif kind == "last byte missing":
        path.write_bytes(content[:-1])
    elif kind == "a flipped bit":
        # Within the numbers of a tensor, where only a checksum can tell.
        place = content.index(torch.arange(100.0).numpy().tobytes()) + 50
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
    elif kind == "text":
        path.write_text("not a checkpoint\n" * 100)
    elif kind == "another zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("hello.txt", "hello")
    elif kind == "another program's":
        torch.save({"model": {"weight": torch.zeros(3)}}, path)
    elif kind == "a pickled module":
        torch.save(torch.nn.Linear(2, 2), path)
    elif kind == "a newer layout":
        torch.save({"magic": checkpoint.MAGIC, "version": checkpoint.VERSION + 1, "state": {}}, path)
    elif kind == "a bare pickle with code":
        path.write_bytes(pickle.dumps(Malicious(victim)))
    elif kind == "a checkpoint with code":
        torch.save({"magic": checkpoint.MAGIC, "version": 1, "state": Malicious(victim)}, path)
    else:
        raise AssertionError(kind)


FAULTS = {
    "empty": "is cut short or is no checkpoint",
    "truncated": "is cut short or is no checkpoint",
    "last byte missing": "is cut short or is no checkpoint",
    "a flipped bit": "is damaged",
    "text": "is cut short or is no checkpoint",
    "another zip": "more than tensors",
    "another program's": "another program",
    "a pickled module": "more than tensors",
    "a newer layout": "layout 2",
    "a bare pickle with code": "is no checkpoint",
    "a checkpoint with code": "more than tensors",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_bad_file_is_refused_in_one_sentence_and_runs_no_code(tmp_path: Path, kind: str) -> None:
    path, victim = tmp_path / "a.pt", tmp_path / "victim"
    checkpoint.save(path, {"numbers": torch.arange(100.0)})
    damage(path, kind, victim)
    with pytest.raises(RunError, match=FAULTS[kind]) as caught:
        checkpoint.load(path)
    assert "\n" not in str(caught.value)
    assert not victim.exists()


def test_the_malicious_file_would_act_on_a_careless_reader(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(pickle.dumps(Malicious(tmp_path / "victim")))
    pickle.loads((tmp_path / "a.pt").read_bytes()).close()
    assert (tmp_path / "victim").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"there is no checkpoint .*a\.pt"):
        checkpoint.load(tmp_path / "a.pt")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_not_taken_for_a_foreign_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    checkpoint.save(tmp_path / "a.pt", {"steps": 1})

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", fail)
        with pytest.raises(type(error)) as caught:
            checkpoint.load(tmp_path / "a.pt")
    assert caught.value is error
    assert checkpoint.load(tmp_path / "a.pt") == {"steps": 1}


@pytest.mark.parametrize("place", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    path = tmp_path / "a.pt"
    checkpoint.save(path, {"steps": 1})

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if place == "write":
            patch.setattr("builtins.open", lambda *_, **__: FullFile(tmp_path / "a.pt.tmp"))
        else:
            patch.setattr(os, place, fail)
        with pytest.raises(RunError, match=r"cannot write .*a\.pt \(No space left on device\); make room"):
            checkpoint.save(path, {"steps": 2, "large": torch.zeros(100_000)})
    assert checkpoint.load(path) == {"steps": 1}
    assert os.listdir(tmp_path) == ["a.pt"]


class FullFile:
    """A file on a disk with no room: created, but nothing fits."""

    def __init__(self, path: Path):
        path.touch()

    def __enter__(self) -> FullFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        pass


def test_an_interrupt_while_writing_leaves_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), checkpoint.replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_weights_and_their_words_come_back(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    weights = OrderedDict(a=shared[:3], b=shared.view(2, 3).T)
    checkpoint.save_weights(tmp_path / "w.safetensors", weights, {"config": "{}"})
    tensors, words = checkpoint.load_weights(tmp_path / "w.safetensors")
    assert words == {"config": "{}"}
    assert_equal(dict(weights), {name: tensors[name] for name in weights})


@pytest.mark.parametrize("content", [b"", b"x" * 100, (2**40).to_bytes(8, "little") + b"{}"])
def test_bad_weights_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(RunError, match="is damaged or is no safetensors file"):
        checkpoint.load_weights(tmp_path / "w.safetensors")


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there are no weights"):
        checkpoint.load_weights(tmp_path / "w.safetensors")
