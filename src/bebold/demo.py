"""The first thing to run: a small task of the paper, learnt, judged and drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bebold import curves, report
from bebold.evaluation import TEST_LEVELS, TEST_SEED, load_policy
from bebold.judge import judge
from bebold.presets import preset
from bebold.runs import holds_run, run_folder
from bebold.training import resume, train
from bebold.video import record_episodes, write_video

CONFIG = replace(preset(task="KCS3R3"), stop_when_solved=True)
EPISODES = 3
"""Shown in the GIF."""


def demo(root: Path, *, quiet: bool = False) -> Path:
    """Train until solved, or go on with that; play 512 fresh levels; leave a curve and a GIF."""
    folder = run_folder(CONFIG, root)
    print(f"Training BeBold on {CONFIG.task} until solved: {folder}", flush=True)
    if holds_run(folder):
        resume(folder, quiet=quiet)
    else:
        train(CONFIG, root=root, quiet=quiet)
    result = report.read_result(folder)
    solved = result.steps_to_solve
    print(f"{result.steps:,} steps in {result.minutes:.1f} minutes; ", end="")
    print("not solved" if solved is None else f"solved at {solved:,} steps", flush=True)
    print(judge(folder, episodes=TEST_LEVELS))
    curves.plot([result], folder / "curve.png")
    policy, _ = load_policy(folder)
    seeds = range(TEST_SEED, TEST_SEED + EPISODES)
    write_video(record_episodes(policy, CONFIG.task, seeds), folder / "agent.gif")
    for name, what in {
        "curve.png": "the learning curve",
        "agent.gif": f"the trained agent on {EPISODES} of those levels",
        "checkpoints": "to go on from with `bebold resume`",
        "events": f"all curves, for `tensorboard --logdir {root}`",
    }.items():
        print(f"  {folder / name}: {what}")
    return folder
