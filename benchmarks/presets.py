"""Measure the training of each method with our settings and with those of its paper, one core, in one go.

python benchmarks/presets.py
python benchmarks/presets.py --methods bebold,ride --json results/presets.json

The first update of a setting does not count: it compiles, and networks allocate their memory.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bebold.parallel import Workers, prepared_process
from bebold.presets import PRESETS, preset
from bebold.settings import resolve
from bebold.trainer import Trainer

METHODS = ("bebold", "rnd", "icm", "ride", "amigo", "none")


def steps_per_second(name: str, method: str, task: str, seconds: float) -> float:
    """Environment steps a second of whole updates: acting, learning, and what the bonus learns."""
    config = replace(preset(name, method=method, task=task), workers=1, device="cpu")  # type: ignore[arg-type]
    with prepared_process():
        trainer = Trainer(resolve(config), Workers())
        trainer.update()
        before, begun = trainer.steps, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            trainer.update()
        return (trainer.steps - before) / (time.perf_counter() - begun)


def measure(methods: Sequence[str], task: str, seconds: float) -> dict[str, dict[str, float]]:
    """By method and preset; prints each as it is known."""
    print(f"steps a second of training on {task}, one core\n{'':10}" + "".join(f"{name:>12}" for name in PRESETS))
    figures: dict[str, dict[str, float]] = {}
    for method in methods:
        print(f"{method:10}", end="", flush=True)
        figures[method] = {}
        for name in PRESETS:
            figures[method][name] = steps_per_second(name, method, task, seconds)
            print(f"{figures[method][name]:12,.0f}", end="", flush=True)
        print()
    return figures


def main() -> None:
    """Print a table; write it, too, if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--task", default="KCS3R3")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each measurement, at least")
    parser.add_argument("--json", type=Path, help="where to write the figures as well")
    options = parser.parse_args()
    # The published settings collect in a thread beside the learner, which must not have a core of its own.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    figures = measure(options.methods.split(","), options.task, options.seconds)
    if options.json is not None:
        options.json.write_text(json.dumps({"task": options.task, "steps_per_second": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
