"""Training: experience, bonus, learning, and a run folder in which nothing is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from bebold.collect import Collector
from bebold.config import TrainConfig
from bebold.envs import make_envs
from bebold.errors import RunError, UsageError
from bebold.evaluation import PROGRESS_SEED, make_policy, play
from bebold.experiments.published import solved_threshold, steps_to_solve
from bebold.gridworld.tasks import find_task
from bebold.learners.ppo import PPO
from bebold.methods.counts import EpisodicCounter
from bebold.methods.keys import make_key
from bebold.methods.recipes import build_intrinsic
from bebold.parallel import Workers, join_workers, prepare_process, start_workers
from bebold.progress import Progress
from bebold.runs import Run
from bebold.settings import validate, worker_count

GO_ON, SAVE, STOP = range(3)


class Interrupted(RuntimeError):
    """Training stopped at a signal, after it had saved."""

    def __init__(self, signum: int, folder: Path):
        super().__init__(f"stopped by {signal.Signals(signum).name}; go on with `bebold resume {folder}`")
        self.signum = signum
        self.folder = folder


def train(config: TrainConfig, *, root: Path | str = "runs", quiet: bool = False) -> Path:
    """Train from scratch; returns the run folder, `root/<task>/<method>/<seed>`.

    Raises
    ------
    UsageError : a setting is impossible, or the folder holds a run already
    RunError : the run cannot go on; its last checkpoint is intact
    Interrupted : SIGINT or SIGTERM came; everything is saved
    """
    config = replace(config, device=choose_device(config.device))
    validate(config)
    config = replace(config, workers=worker_count(config))
    joined = join_workers()
    if joined is not None and joined.rank > 0:
        return _follow(joined, Path(root))
    if joined is not None:
        config = replace(config, workers=joined.size)
        validate(config)
    with Run.create(config, Path(root)) as run:
        _lead(run, None, joined, quiet)
    return run.folder


def resume(folder: Path | str, *, total_steps: int | None = None, quiet: bool = False) -> Path:
    """Go on from the last checkpoint of a run folder, up to `total_steps` if given.

    On the same machine the result equals that of a run which was never interrupted.
    """
    joined = join_workers()
    if joined is not None and joined.rank > 0:
        return _follow(joined, Path(folder))
    with Run.open(Path(folder)) as run:
        if total_steps is not None:
            run.write_config(replace(run.config, total_steps=total_steps))
        if joined is not None and joined.size != run.config.workers:
            raise UsageError(f"this run has {run.config.workers} workers; start torchrun with as many")
        saved = run.load()
        run.rewind(-1 if saved is None else saved["steps"])
        _lead(run, saved, joined, quiet)
    return run.folder


def choose_device(device: str) -> Any:
    """`auto` becomes CUDA when there is one."""
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise UsageError("no CUDA device is available; use --device cpu or auto")
    return ("cuda" if available else "cpu") if device == "auto" else device


class Trainer:
    """What one worker owns: its share of the environments, and copies of the policy and the intrinsic reward."""

    def __init__(self, config: TrainConfig, workers: Workers):
        self.config = config
        self.workers = workers
        self.task = find_task(config.task)
        share = config.num_envs // workers.size
        envs = make_envs(config.task, share)
        self.policy = make_policy(config, envs).to(config.device)
        self.intrinsic = build_intrinsic(
            config.method,
            config.intrinsic,
            obs_shapes={name: space.shape for name, space in envs.single_observation_space.items()},  # type: ignore[attr-defined]
            device=config.device,
            seed=config.seed,
            peers=workers,
        )
        action_seed, split_seed = np.random.SeedSequence((config.seed, workers.rank)).generate_state(2).tolist()
        self.learner = PPO(
            self.policy,
            config.ppo,
            coefficient=config.intrinsic.coefficient,
            seed=split_seed,
            peers=workers,
        )
        self.collector = Collector(
            envs,
            key=make_key(config.intrinsic.key, config.intrinsic.key_bin),
            counter=EpisodicCounter.for_episodes(share, self.task.max_steps),
            needs=self.policy.needs | self.intrinsic.needs,
            unroll=config.unroll,
            seed=config.seed * 1_000_000 + workers.rank * share,
            action_seed=action_seed,
            device=config.device,
        )
        self.steps = 0
        self.evaluations: list[tuple[int, float]] = []

    def update(self) -> dict[str, float]:
        """Collect, reward, learn: one turn of the loop. Returns what all workers together measured."""
        clock = Stopwatch()
        with clock("collect"):
            rollout = self.collector.collect(self.policy)
        with clock("reward"):
            bonus = self.intrinsic.reward(rollout)
        with clock("learn"):
            stats = self.learner.update(rollout, bonus)
        with clock("predict"):
            stats |= self.intrinsic.update(rollout)
        steps = int(rollout.valid.sum())
        stats = self.agree(stats | clock.seconds | {"steps": steps})
        self.steps += round(stats.pop("steps") * self.workers.size)
        episodes = self.workers.gather(torch.tensor(self.collector.finished_episodes()).reshape(-1, 2))
        if len(episodes):
            stats["charts/episodic_return"], stats["charts/episodic_length"] = episodes.mean(dim=0).tolist()
        stats["charts/episodes"] = len(episodes)
        return stats

    def agree(self, stats: Mapping[str, float]) -> dict[str, float]:
        """The mean of each figure over the workers."""
        values = torch.tensor(list(stats.values()), dtype=torch.float64)
        self.workers.average_(values)
        return dict(zip(stats, values.tolist(), strict=True))

    def evaluate(self) -> dict[str, float]:
        """Play the held-out levels, shared by the workers."""
        first = time.perf_counter()
        episodes = range(PROGRESS_SEED, PROGRESS_SEED + self.config.evaluation.episodes)
        mine = episodes[self.workers.rank :: self.workers.size]
        returns = torch.zeros(0, 2)
        if len(mine):
            played = play(self.policy, make_envs(self.config.task, len(mine)), mine, action_seed=mine[0])
            returns = torch.tensor(np.stack((played.returns, played.lengths), axis=1)).float()
        mean_return, mean_length = self.workers.gather(returns).mean(dim=0).tolist()
        self.evaluations.append((self.steps, mean_return))
        return {
            "eval/return_mean": mean_return,
            "eval/length_mean": mean_length,
            "time/evaluate": time.perf_counter() - first,
        }

    @property
    def steps_to_solve(self) -> int | None:
        """Steps at the first of three evaluations in a row at 95 % of the paper's return."""
        steps, returns = zip(*self.evaluations, strict=True) if self.evaluations else ((), ())
        return steps_to_solve(steps, returns, solved_threshold(self.task.short or ""))

    def evaluation_due(self, steps_before: int) -> bool:
        interval = self.config.evaluation.interval
        return interval > 0 and self.steps // interval > steps_before // interval

    @property
    def finished(self) -> bool:
        solved = self.config.stop_when_solved and self.steps_to_solve is not None
        return solved or self.steps >= self.config.total_steps

    def state(self) -> dict[str, Any] | None:
        """The state of all workers, on rank 0; elsewhere None."""
        shards = self.workers.collect(
            {
                "collector": self.collector.state_dict(),
                "learner": self.learner.state_dict(),
                "intrinsic": self.intrinsic.state_dict(),
            }
        )
        if not shards:
            return None
        return {
            "steps": self.steps,
            "evaluations": self.evaluations,
            "shards": shards,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up this worker's part of a state."""
        self.steps = state["steps"]
        self.evaluations = [(int(steps), float(value)) for steps, value in state["evaluations"]]
        shard = state["shards"][self.workers.rank]
        self.collector.load_state_dict(shard["collector"])
        self.learner.load_state_dict(shard["learner"])
        self.intrinsic.load_state_dict(shard["intrinsic"])


def _loop(trainer: Trainer, run: Run | None, progress: Progress | None, signals: list[int]) -> None:
    """Train until done or told to stop. Rank 0, which has the run folder, decides; all others follow."""
    workers = trainer.workers
    saved = time.monotonic()
    while not trainer.finished:
        update_begun = time.monotonic()
        steps_before = trainer.steps
        stats = trainer.update()
        if trainer.evaluation_due(steps_before):
            stats |= trainer.evaluate()
        stats["charts/steps_per_second"] = (trainer.steps - steps_before) / (time.monotonic() - update_begun)
        if run is not None and progress is not None:
            run.log(trainer.steps, stats)
            progress.update(trainer.steps, stats)
        save_due = time.monotonic() - saved >= trainer.config.checkpoint_interval
        decision = workers.decide(STOP if signals else SAVE if save_due else GO_ON)
        if decision != GO_ON:
            _save(trainer, run)
            saved = time.monotonic()
        if decision == STOP:
            return
    _save(trainer, run)


def _save(trainer: Trainer, run: Run | None) -> None:
    state = trainer.state()
    if run is not None and state is not None:
        run.save(state, trainer.policy.state_dict())


def _lead(run: Run, saved: dict[str, Any] | None, joined: Workers | None, quiet: bool) -> None:
    """Rank 0: start the others, train, write the run folder."""
    config = run.config
    prepare_process()
    make_envs(config.task, 1).close()  # compiles once, before the workers would all do so at a time
    workers = joined or start_workers(config.workers, "bebold.training")
    try:
        workers.hand_out([(config, saved)] * workers.size)
        trainer = Trainer(config, workers)
        if saved is not None:
            trainer.restore(saved)
        title = f"{trainer.task.short or trainer.task.id} {config.method} seed {config.seed}"
        with (
            _caught_signals() as signals,
            Progress(config.total_steps, start=trainer.steps, title=title, quiet=quiet) as progress,
        ):
            _loop(trainer, run, progress, signals)
    finally:
        workers.close()
    if signals:
        raise Interrupted(signals[0], run.folder)
    run.finish(
        {
            "steps": trainer.steps,
            "steps_to_solve": trainer.steps_to_solve,
            "minutes": round(run.elapsed / 60, 2),
            "workers": workers.size,
        }
    )


def _follow(workers: Workers, folder: Path) -> Path:
    """Any other rank: train with the settings that rank 0 hands out."""
    prepare_process()
    try:
        config, saved = workers.hand_out()
        trainer = Trainer(config, workers)
        if saved is not None:
            trainer.restore(saved)
        _loop(trainer, None, None, [])
    finally:
        workers.close()
    return folder


def work() -> None:
    """A worker process from its start to its end. Rank 0 reports what went wrong, so this says nothing of it."""
    workers = join_workers()
    assert workers is not None, "only start_workers calls this"
    try:
        _follow(workers, Path())
    except RunError:
        raise SystemExit(1) from None


@contextmanager
def _caught_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM as a list to look at between updates; a second one is obeyed at once."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        signal.signal(signum, previous[signum])

    previous: dict[int, Any] = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


class Stopwatch:
    """Seconds spent in each named stage, under `time/<stage>`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[f"time/{stage}"] = time.perf_counter() - begun
