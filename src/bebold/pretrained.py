"""Trained agents that come with the package, one a task, to be watched and judged without any training.

python -m bebold.pretrained runs    # packs the best agent of each task among these runs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bebold.checkpoint import load_weights, save_weights
from bebold.errors import UsageError
from bebold.gridworld.tasks import find_task
from bebold.report import find_runs, read_result

FOLDER = Path(__file__).resolve().parent / "agents"
ENDING = ".safetensors"
METHOD = "bebold"
EVALUATIONS = 3
"""So many of a run's last say how good its agent is."""


def find_pretrained(task: str) -> Path:
    """The weights of the agent for this task.

    Raises
    ------
    UnknownTask : there is no such task
    UsageError : no agent for it comes with the package
    """
    found = find_task(task)
    path = FOLDER / f"{found.name}{ENDING}"
    if not path.exists():
        known = ", ".join(sorted(path.name.removesuffix(ENDING) for path in FOLDER.glob(f"*{ENDING}")))
        raise UsageError(f"no trained agent for {task} comes with this package, only for {known or 'no task'}")
    return path


def pack(runs: Sequence[Path]) -> list[Path]:
    """Put BeBold's best agent of each task into the package, in half precision.

    The best by its last progress evaluations: on the levels of `bebold eval` it is to be judged without having been
    chosen for them.

    Raises
    ------
    UsageError : a path holds no run
    RunError : weights cannot be read, or written
    """
    results = [result for result in map(read_result, find_runs(runs)) if result.evaluated and result.name == METHOD]
    best = {r.task: r for r in sorted(results, key=lambda r: np.mean(r.curve_returns[-EVALUATIONS:]))}
    paths = []
    for task, result in best.items():
        weights, words = load_weights(result.folder / "weights.safetensors")
        half = {name: x.to(torch.float16) if x.is_floating_point() else x for name, x in weights.items()}
        config = json.loads(words["config"])
        # No more than what builds the network: other settings may be renamed one day.
        words["config"] = json.dumps({name: config[name] for name in ("task", "method", "seed", "network")})
        paths.append(FOLDER / f"{task}{ENDING}")
        save_weights(paths[-1], half, words)
    return paths


if __name__ == "__main__":
    for path in pack([Path(name) for name in sys.argv[1:]]):
        print(f"{path}: {path.stat().st_size / 1000:.0f} KB")
