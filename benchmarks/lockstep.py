"""Prove that the engine equals Farama's MiniGrid: walk both side by side and count every difference.

    python benchmarks/lockstep.py                     # every task, 1 M steps and 2 000 seeds each: hours
    python benchmarks/lockstep.py --task KCS4R3 --steps 50000 --seeds 200
    python benchmarks/lockstep.py --out proof.jsonl   # keeps a line a task; a second run goes on from there

Half of the steps go to short walks from every seed, the other half to long ones through several episodes. At
each step the reward, both flags, all cells with box contents, the carried object, the agent and the time are
compared. The view, which Farama computes from these alone and takes most of its time for, and the generator
(spare half word included), which never finds back once it has gone astray, are compared at every 8th step, at
the first and last of each episode and after every change of the grid; the full-grid observation at every 256th.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from bebold.gridworld import TASKS, Task, find_task
from bebold.gridworld.lockstep import VIEW_EVERY, Pair, Report

# Farama needs a quarter of a second for a level, so few are drawn and each is played for long.
SLOW_TO_RESET = "MiniGrid-MultiRoom-N12-S10-v0"
LONG_STAYS = {"knowing": 0.1, "late": 0.1, "again": 0.95}
ENVS = 25
EPISODES_OF_A_LONG_WALK = 3


def prove(task: Task, steps: int, seeds: int, view_every: int = VIEW_EVERY) -> Report:
    """Compare at least `steps` steps and `seeds` seeds of one task."""
    options: dict[str, Any] = {"view_every": view_every}
    if task.id == SLOW_TO_RESET:
        options |= LONG_STAYS
    total, pair = Report(), Pair(task, ENVS)
    short_walk = max(1, steps // (2 * seeds))
    first = 0
    while first < seeds:
        total += pair.walk(range(first, first + ENVS), short_walk, policy_seed=1, **options)
        first += ENVS
    while total.steps < steps:
        left = -(-(steps - total.steps) // ENVS)
        # A tenth more than what is missing, since steps that only reset do not count.
        long_walk = min(EPISODES_OF_A_LONG_WALK * task.max_steps, left + left // 10 + 1)
        total += pair.walk(range(first, first + ENVS), long_walk, policy_seed=2, **options)
        first += ENVS
    return total


def main() -> None:
    """Prove the tasks asked for, print a table, and exit with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="a task's id or short name; repeat for several")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps a task (default 1 000 000)")
    parser.add_argument("--seeds", type=int, default=2_000, help="seeds a task (default 2 000; MRN12S10 a tenth)")
    parser.add_argument(
        "--view-every",
        type=int,
        default=VIEW_EVERY,
        help=f"compare the view at every so many steps (default {VIEW_EVERY})",
    )
    parser.add_argument("--out", type=Path, help="append one JSON line a task; tasks already in it are left out")
    parser.add_argument("--part", default="1/1", help="1/2 or 2/2 to share the tasks between two processes")
    options = parser.parse_args()
    chosen = [find_task(name) for name in options.task] if options.task else list(TASKS)
    part, parts = map(int, options.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    done = {}
    if options.out and options.out.exists():
        done = {line["task"]: line for line in map(json.loads, options.out.read_text().splitlines())}
    names = ("steps", "views", "levels", "successes", "failures", "timeouts")
    columns = "{:42} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>11} {:>7}"
    print(columns.format("task", *names, "differences", "minutes"))
    differing = 0
    for task in chosen:
        line = done.get(task.id)
        if line is None:
            start = time.monotonic()
            seeds = max(1, options.seeds // 10) if task.id == SLOW_TO_RESET else options.seeds
            report = dataclasses.asdict(prove(task, options.steps, seeds, options.view_every))
            line = {"task": task.id, **report, "minutes": round((time.monotonic() - start) / 60, 2)}
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        differences = sum(line["differences"].values())
        differing += differences
        print(columns.format(task.id, *(line[name] for name in names), differences, line["minutes"]), flush=True)
        if differences:
            print("   ", line["differences"])
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    main()
