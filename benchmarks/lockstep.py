"""Prove that the engine equals Farama's MiniGrid: walk both side by side and count every difference.

    python benchmarks/lockstep.py                     # every task, 1 M steps and 2 000 seeds each: hours
    python benchmarks/lockstep.py --task KCS4R3 --steps 50000 --seeds 200
    python benchmarks/lockstep.py --out proof.jsonl   # keeps a line a task; a second run goes on from there

Half of the steps go to short walks from every seed, the other half to long ones through several episodes. At
each step the view, direction, reward, both flags, all cells with box contents, the carried object, the agent,
the time and the generator (spare half word included) are compared; the full-grid observation at every 64th.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path

from bebold.gridworld import TASKS, Task, find_task
from bebold.gridworld.lockstep import Report, walk

SLOW_TO_RESET = "MiniGrid-MultiRoom-N12-S10-v0"  # Farama needs a quarter of a second for a level
ENVS_PER_WALK = 10
EPISODES_OF_A_LONG_WALK = 3


def prove(task: Task, steps: int, seeds: int) -> Report:
    """Compare at least `steps` steps and `seeds` seeds of one task."""
    total = Report()
    short_walk = max(1, steps // (2 * seeds))
    for first in range(0, seeds, ENVS_PER_WALK):
        count = min(ENVS_PER_WALK, seeds - first)
        total += walk(task, range(first, first + count), short_walk, policy_seed=1)
    first = seeds
    while total.steps < steps:
        left = -(-(steps - total.steps) // ENVS_PER_WALK)
        # A tenth more than what is missing, since steps that only reset do not count.
        long_walk = min(EPISODES_OF_A_LONG_WALK * task.max_steps, left + left // 10 + 1)
        total += walk(task, range(first, first + ENVS_PER_WALK), long_walk, policy_seed=2)
        first += ENVS_PER_WALK
    return total


def main() -> None:
    """Prove the tasks asked for, print a table, and exit with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="a task's id or short name; repeat for several")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps a task (default 1 000 000)")
    parser.add_argument("--seeds", type=int, default=2_000, help="seeds a task (default 2 000; MRN12S10 a tenth)")
    parser.add_argument("--out", type=Path, help="append one JSON line a task; tasks already in it are left out")
    parser.add_argument("--part", default="1/1", help="1/2 or 2/2 to share the tasks between two processes")
    options = parser.parse_args()
    chosen = [find_task(name) for name in options.task] if options.task else list(TASKS)
    part, parts = map(int, options.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    done = {}
    if options.out and options.out.exists():
        done = {line["task"]: line for line in map(json.loads, options.out.read_text().splitlines())}
    columns = "{:42} {:>9} {:>7} {:>9} {:>9} {:>9} {:>11} {:>7}"
    print(columns.format("task", "steps", "levels", "successes", "failures", "time-outs", "differences", "minutes"))
    differing = 0
    for task in chosen:
        line = done.get(task.id)
        if line is None:
            start = time.monotonic()
            seeds = max(1, options.seeds // 10) if task.id == SLOW_TO_RESET else options.seeds
            report = dataclasses.asdict(prove(task, options.steps, seeds))
            line = {"task": task.id, **report, "minutes": round((time.monotonic() - start) / 60, 2)}
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        differences = sum(line["differences"].values())
        differing += differences
        counts = [line[name] for name in ("steps", "levels", "successes", "failures", "timeouts")]
        print(columns.format(task.id, *counts, differences, line["minutes"]), flush=True)
        if differences:
            print("   ", line["differences"])
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    main()
