"""Measure the engine through its Gymnasium interface: random actions, resets included, one core.

python benchmarks/engine_speed.py
python benchmarks/engine_speed.py --task KCS4R3 --envs 1024 --seconds 5 --farama
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from bebold.envs import make_envs, make_farama_envs

DEFAULT_TASKS = ("KCS4R3", "OMFull", "MRN7S8", "MRN12S10")


def steps_per_second(envs: Any, seconds: float) -> tuple[float, float]:
    """Environment steps per second, and per second of processor time.

    Environments start at staggered times of their episodes, as they would be in the midst of training.
    """
    rng = np.random.default_rng(0)
    actions = rng.integers(0, envs.single_action_space.n, size=(512, envs.num_envs))
    envs.reset(seed=0)
    if hasattr(envs, "get_state"):
        state = envs.get_state()
        state["elapsed"][:] = rng.integers(0, envs.task.max_steps, size=envs.num_envs)
        envs.set_state(state)
    start, start_of_work, count = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < seconds:
        for action in actions[count % len(actions) :][:32]:
            envs.step(action)
            count += 1
    steps = count * envs.num_envs
    return steps / (time.perf_counter() - start), steps / (time.process_time() - start_of_work)


def main() -> None:
    """Print a table of steps per second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="a task's id or short name; repeat for several")
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each measurement")
    parser.add_argument("--farama", action="store_true", help="measure Farama's environments too (8 of them)")
    options = parser.parse_args()
    for task in options.task or DEFAULT_TASKS:
        start = time.perf_counter()
        envs = make_envs(task, options.envs)
        ready = time.perf_counter() - start
        wall, processor = steps_per_second(envs, options.seconds)
        line = f"{task:28} {wall / 1e6:5.2f} M steps/s ({processor / 1e6:5.2f} M per second of processor time)"
        line += f"   ready after {ready:4.1f} s"
        if options.farama:
            theirs, _ = steps_per_second(make_farama_envs(task, 8), options.seconds)
            line += f"   Farama {theirs:6.0f} steps/s"
        print(line, flush=True)


if __name__ == "__main__":
    main()
