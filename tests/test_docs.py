"""The documents' examples do what they say."""

import re
from pathlib import Path
from typing import Any

import pytest

import bebold
from bebold.methods.build import NOVELTIES
from bebold.methods.recipes import RECIPES

DOCS = Path(__file__).parents[1] / "docs"


def test_the_example_of_a_new_method_trains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "adding-a-method.md").read_text(), flags=re.DOTALL)
    assert len(code.splitlines()) < 40
    monkeypatch.chdir(tmp_path)
    for table in (NOVELTIES, RECIPES):
        monkeypatch.setitem(table, "change", None)  # and afterwards it is gone again
    whole = bebold.train
    small = {"total_steps": 3000, "num_envs": 16}
    monkeypatch.setattr(bebold, "train", lambda config: folders.append(whole(_small(config, **small), quiet=True)))
    folders: list[Path] = []
    exec(compile(code, "adding-a-method.md", "exec"), {})
    (folder,) = folders
    _, config = bebold.load_policy(folder)
    assert config.method == "change"
    text = (folder / "metrics.jsonl").read_text()
    assert '"intrinsic/novelty_mean"' in text


def test_the_example_of_a_training_loop_pays_first_visits() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "own-training-loop.md").read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "own-training-loop.md", "exec"), names)
    rollout, bonus = names["rollout"], names["bonus"]
    assert bonus.shape == (40, 8) and bonus.any()
    assert not bonus[rollout.episodic_count[1:] > 1].any()
    assert names["stats"]["intrinsic/predictor_loss"] > 0


def test_the_table_of_methods_has_their_coefficients() -> None:
    row = r"^\| `([\w-]+)` \|[^|]*\|[^|]*\|[^|]*\| ([\d.]+) \|"
    rows = re.findall(row, (DOCS / "methods.md").read_text(), re.MULTILINE)
    assert {name: float(coefficient) for name, coefficient in rows} == {
        name: recipe.coefficient for name, recipe in RECIPES.items()
    }


def _small(config: bebold.TrainConfig, **changes: int) -> bebold.TrainConfig:
    return bebold.TrainConfig(**(vars(config) | changes))
