"""How fast this machine is at each part of the work, side by side in one go of under a minute."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bebold.config import EvaluationConfig, TrainConfig
from bebold.envs import make_envs
from bebold.errors import RunError
from bebold.gridworld.tasks import find_task, make_farama
from bebold.runs import read_metrics, run_folder
from bebold.settings import core_count, resolve

TASK = "KCS4R3"
OTHERS = ("MRN7S8", "MRN12S10", "OMFull")
"""Of these the engine's speed alone is measured, as far as there is time: each family's first use compiles."""
NUM_ENVS = 256
BUDGET = 43.0
"""Seconds for all of it; that leaves 5 of the promised 50 for Python to start."""
TRAINING, SHORTEST = 15.0, 5.0
"""Seconds of training from its first update on, and what is left of them where compiling took the time."""
WARM_UP = 3.0
"""Of these, seconds at the beginning that do not count."""
START = 120.0
"""Seconds after which training should have made its first update, whatever else this machine does."""
STOP = 3.0
"""Seconds kept for training to save and stop."""
PATIENCE = 10.0
"""Seconds after which training is killed if it has not stopped."""


def bench(*, as_json: bool = False) -> int:
    """Measure, and print a table or one JSON object; returns the exit code."""
    figures = measure(lambda text: None if as_json else print(text, flush=True))
    if as_json:
        print(json.dumps(figures))
    return 0


def measure(say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """All figures; `say` hears each as it is known."""
    end = time.monotonic() + BUDGET
    say(f"steps a second on {core_count()} cores, random actions where no policy is named")

    def speak(name: str, value: float | None, why_not: str = "not installed") -> None:
        say(f"  {name:<50} {why_not if value is None else f'{value:>13,.0f}'}")

    engine: dict[str, float | None] = {TASK: engine_speed(TASK)}
    speak(f"engine, {TASK}, {NUM_ENVS} environments, one core", engine[TASK])
    farama = farama_speed(TASK)
    speak(f"Farama, {TASK}, one environment", farama)
    envpool = envpool_speed(TASK)
    speak(f"EnvPool, {TASK}, {NUM_ENVS} environments, one core", envpool)
    collection = collection_speed(TASK)
    speak(f"collection with the policy, {TASK}, one core", collection)
    training = training_figures(TASK, end)
    speak(f"training, {TASK}, all cores", training["steps_per_second"])
    engine |= other_engine_speeds(end)
    for task in OTHERS:
        speak(f"engine, {task}, {NUM_ENVS} environments, one core", engine[task], "no time left; a second bench has")
    mebibytes = {key: f"{value / 2**20:,.0f} MiB" for key, value in training.items() if key.endswith("_bytes")}
    say(
        "memory of training, all processes (PSS): "
        "at first {memory_start_bytes}, at last {memory_end_bytes}, at most {peak_memory_bytes}".format(**mebibytes)
    )
    say("share of the training time: " + ", ".join(f"{k} {v:.0%}" for k, v in training["stages"].items()))
    return {
        "engine_steps_per_second": engine[TASK],
        "farama_steps_per_second": farama,
        "train_steps_per_second": training["steps_per_second"],
        "peak_memory_bytes": training["peak_memory_bytes"],
        "stages": training["stages"],
        "memory_start_bytes": training["memory_start_bytes"],
        "memory_end_bytes": training["memory_end_bytes"],
        "engine": engine,
        "envpool_steps_per_second": envpool,
        "collect_steps_per_second": collection,
        "cores": core_count(),
    }


def other_engine_speeds(end: float) -> dict[str, float | None]:
    """Of `OTHERS`, in a process that is ended at `end`: what is being compiled cannot be interrupted otherwise."""
    code = "import sys; from bebold.bench import engine_speed\n"
    code += "for task in sys.argv[1:]: print(task, engine_speed(task), flush=True)"
    command = [sys.executable, "-c", code, *OTHERS]
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(command, stdout=said) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, end - time.monotonic()))
        process.kill()
        said.seek(0)
        lines = [line.split() for line in said if line.endswith("\n")]
    return dict.fromkeys(OTHERS) | {task: float(speed) for task, speed in lines}


def engine_speed(task: str, seconds: float = 0.7) -> float:
    """`VectorEnv.step` on random actions over whole episodes, so that resets have their share."""
    envs = make_envs(task, NUM_ENVS)
    length = find_task(task).max_steps + 1  # one more: the step that resets
    return _vector_speed(envs, length, seconds)


def envpool_speed(task: str, seconds: float = 1.0) -> float | None:
    """The same with EnvPool on one thread; None if it is not installed."""
    try:
        import envpool
    except ImportError:
        return None
    envs = envpool.make_gymnasium(find_task(task).id, num_envs=NUM_ENVS, num_threads=1)
    return _vector_speed(envs, find_task(task).max_steps + 1, seconds)


def farama_speed(task: str, seconds: float = 1.5) -> float:
    """Farama's environment in a plain loop on random actions, resets included."""
    env = make_farama(task)
    actions = np.random.default_rng(0).integers(7, size=100_000)
    env.reset(seed=0)
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        _, _, terminated, truncated, _ = env.step(actions[steps % len(actions)])
        if terminated or truncated:
            env.reset()
        steps += 1
    speed = steps / (time.perf_counter() - begun)
    env.close()
    return speed


def collection_speed(task: str, seconds: float = 1.5) -> float:
    """One process acting and counting, and learning nothing."""
    from bebold.parallel import Workers, prepared_process
    from bebold.trainer import Trainer

    with prepared_process():
        config = resolve(TrainConfig(task=task, num_envs=NUM_ENVS // 2, device="cpu", workers=1))
        trainer = Trainer(config, Workers())
        trainer.pipeline.collector.collect(trainer.policy)
        begun, steps = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            steps += int(trainer.pipeline.collector.collect(trainer.policy).valid.sum())
        return steps / (time.perf_counter() - begun)


def training_figures(task: str, end: float) -> dict[str, Any]:
    """The real command, up to `end` or `TRAINING` seconds after its first update: speed, memory, each stage's share.

    Raises
    ------
    RunError : training did not get as far as two updates
    """
    config = TrainConfig(task=task, evaluation=EvaluationConfig(interval=0))
    with tempfile.TemporaryDirectory(prefix="bebold-bench-") as root:
        command = [sys.executable, "-m", "bebold.cli", "train", "--task", task, "--root", root, "--quiet"]
        command += ["--evaluation.interval", "0", "--total-steps", str(10**9)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        folder = run_folder(config, Path(root))
        memory: list[tuple[float, int]] = []
        begun, stop = None, time.monotonic() + START
        try:
            while process.poll() is None and time.monotonic() < stop:
                time.sleep(0.5)
                memory.append((time.monotonic(), tree_memory(process.pid)))
                if begun is None and (folder / "metrics.jsonl").exists():
                    begun = time.monotonic()
                    stop = begun + min(TRAINING, max(SHORTEST, end - STOP - begun))
            complaint = _stop(process)
        finally:
            process.kill()
            process.wait()
        metrics = read_metrics(folder)
    steps, elapsed = metrics["steps"], metrics.get("time/elapsed", np.zeros(0))
    if len(steps) < 2 or begun is None:
        raise RunError(f"training did not get under way: {complaint.strip() or 'too little time'}")
    counted = elapsed >= min(elapsed[0] + WARM_UP, elapsed[-2])
    span = elapsed[counted][-1] - elapsed[counted][0]
    known = [key for key in metrics if key.startswith("time/") and key != "time/elapsed"]
    shares = {key.removeprefix("time/"): float(np.nansum(metrics[key][counted][1:]) / span) for key in known}
    shares["other"] = max(0.0, 1.0 - sum(shares.values()))
    # In its first seconds a process still grows to its size, and one that has ended has none.
    settled = [size for at, size in memory if at >= begun + WARM_UP and size] or [0]
    return {
        "steps_per_second": float((steps[counted][-1] - steps[counted][0]) / span),
        "peak_memory_bytes": max(size for _, size in memory),
        "memory_start_bytes": settled[0],
        "memory_end_bytes": settled[-1],
        "stages": {name: round(share, 4) for name, share in shares.items()},
    }


def _stop(process: subprocess.Popen[str]) -> str:
    """End a process, kindly first; returns what it said on stderr."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.communicate(timeout=PATIENCE)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


def tree_memory(pid: int) -> int:
    """Bytes of a process and all below it, shared memory counted once (PSS); 0 where /proc is missing."""
    total = 0
    for process in _tree(pid):
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue  # it has just ended
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:
                continue
    return found


def _vector_speed(envs: Any, length: int, seconds: float) -> float:
    count = int(envs.single_action_space.n) if hasattr(envs, "single_action_space") else int(envs.action_space.n)
    actions = np.random.default_rng(0).integers(count, size=(length, NUM_ENVS))
    envs.reset()
    envs.step(actions[0])
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        for row in actions:
            envs.step(row)
        steps += length * NUM_ENVS
    speed = steps / (time.perf_counter() - begun)
    envs.close()
    return speed
