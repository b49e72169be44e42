"""Training: the loop, the processes that share it, and a run folder in which nothing is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bebold.config import TrainConfig
from bebold.errors import RunError, UsageError
from bebold.gridworld.tasks import find_task
from bebold.interrupts import Interrupted, caught_signals
from bebold.parallel import Workers, join_workers, prepared_process
from bebold.progress import Progress
from bebold.runs import Run
from bebold.settings import resolve, validate
from bebold.trainer import Trainer, choose_device

log = logging.getLogger(__name__)

GO_ON, SAVE, STOP = range(3)


def train(config: TrainConfig, *, root: Path | str = "runs", quiet: bool = False) -> Path:
    """Train from scratch; returns the run folder, `root/<task>/<label or method>/<seed>`.

    Under torchrun every process calls this, and all train one agent.

    Raises
    ------
    UsageError : a setting is impossible, or the folder holds a run already
    RunError : the run cannot go on; its last checkpoint is intact
    Interrupted : SIGINT or SIGTERM came; everything is saved
    """
    with _workers() as workers:
        if workers is not None and workers.rank > 0:
            return _follow(workers)
        if workers is not None:
            config = replace(config, workers=workers.size)
        _check(config)
        config = resolve(config)
        with Run.create(config, Path(root)) as run:
            _lead(run, config, None, workers, quiet)
        return run.folder


def resume(
    folder: Path | str,
    *,
    total_steps: int | None = None,
    stop_when_solved: bool = False,
    give_up_at: int = 0,
    quiet: bool = False,
) -> Path:
    """Go on from the last checkpoint of a run folder.

    On the same machine the result equals that of a run which was never interrupted. With `total_steps` the run goes
    on up to that many, also if it has solved its task before, or given up; with `stop_when_solved` and `give_up_at` no
    further than these allow.

    Raises
    ------
    UsageError : there is no run in `folder`, its settings are impossible, or it has taken more steps already
    RunError : the run cannot go on; its last checkpoint is intact
    Interrupted : SIGINT or SIGTERM came; everything is saved
    """
    with _workers() as workers:
        if workers is not None and workers.rank > 0:
            return _follow(workers)
        with Run.open(Path(folder)) as run:
            config = run.config
            if total_steps is not None:
                config = replace(
                    config, total_steps=total_steps, stop_when_solved=stop_when_solved, give_up_at=give_up_at
                )
            _check(config)
            config = resolve(config)
            if workers is not None and workers.size != config.workers:
                raise UsageError(f"this run has {config.workers} workers; start torchrun with as many")
            saved = run.load()
            taken = 0 if saved is None else saved["steps"]
            if total_steps is not None and total_steps < min(taken, run.config.total_steps):
                raise UsageError(
                    f"{folder} has taken {taken:,} steps already; total_steps is {total_steps:,} and must be more"
                )
            if config.total_steps != run.config.total_steps and taken:
                run.note_total(taken, config.total_steps)
            _lead(run, config, saved, workers, quiet)
        return run.folder


def loop(trainer: Trainer, run: Run | None, progress: Progress | None, signals: list[int]) -> None:
    """Train until done or told to stop. Rank 0, which has the run folder, decides; all others follow."""
    saved = time.monotonic()
    while not trainer.finished:
        begun, steps_before = time.monotonic(), trainer.steps
        stats = trainer.update()
        if trainer.evaluation_due(steps_before):
            stats |= trainer.evaluate()
        stats["charts/steps_per_second"] = (trainer.steps - steps_before) / (time.monotonic() - begun)
        if run is not None and progress is not None:
            run.log(trainer.steps, stats)
            progress.update(trainer.steps, stats)
        save_due = time.monotonic() - saved >= trainer.config.checkpoint_interval
        decision = trainer.workers.decide(STOP if signals else SAVE if save_due else GO_ON)
        if decision != GO_ON:
            _save(trainer, run)
            saved = time.monotonic()
        if decision == STOP:
            return
    _save(trainer, run)


def work() -> None:
    """A worker process from its start to its end. Rank 0 reports what went wrong, so this says nothing of it."""
    try:
        with _workers() as workers:
            assert workers is not None, "only Workers.start calls this"
            _follow(workers)
    except (RunError, UsageError):
        raise SystemExit(1) from None


def _check(config: TrainConfig) -> None:
    """Refuse what cannot work before anything is made."""
    find_task(config.task)
    choose_device(config.device)
    validate(config)


def _save(trainer: Trainer, run: Run | None) -> None:
    state = trainer.state()
    if run is not None and state is not None:
        run.save(state, trainer.policy.state_dict())
        for observer in trainer.observers:
            observer.write(run.folder)


def _lead(run: Run, config: TrainConfig, saved: dict[str, Any] | None, workers: Workers | None, quiet: bool) -> None:
    """Rank 0: start the others unless they are there, train, write the run folder."""
    with ExitStack() as stack:
        stack.enter_context(prepared_process())
        peers = workers or Workers(0, config.workers)
        stack.callback(peers.close)
        # Before the others start: what is impossible shows here, and kernels are compiled once.
        trainer = Trainer(config, peers)
        parts: list[Any] = [None] * peers.size
        if saved is not None:
            parts = trainer.parts(saved | {"asked_at": run.asked_at})
            trainer.restore(parts[0])
        # Only now that what was saved has turned out to fit.
        run.write_config(config)
        run.rewind(-1 if saved is None else saved["steps"])
        if trainer.finished and not quiet:
            log.warning(f"{run.folder} was finished, at {trainer.steps:,} steps; with total_steps it goes on")
        if workers is None:
            peers.start("bebold.training")
        peers.hand_out([(config, part, run.folder) for part in parts])
        del saved, parts
        signals = stack.enter_context(caught_signals())
        title = f"{trainer.task.short or trainer.task.id} {config.name} seed {config.seed}"
        progress = stack.enter_context(Progress(config.total_steps, start=trainer.steps, title=title, quiet=quiet))
        loop(trainer, run, progress, signals)
    if signals:
        raise Interrupted(signals[0], f"`bebold resume {run.folder}`")
    if trainer.gave_up and not quiet:
        log.warning(f"{run.folder} gave up at {trainer.steps:,} steps: its last evaluations earned nothing")
    run.finish(
        {
            "steps": trainer.steps,
            "steps_to_solve": trainer.steps_to_solve,
            "minutes": round(run.elapsed / 60, 2),
            "workers": peers.size,
        }
    )


def _follow(workers: Workers) -> Path:
    """Any other rank: train with what rank 0 hands out."""
    with prepared_process(), caught_signals():
        config, part, folder = workers.hand_out()
        trainer = Trainer(config, workers)
        if part is not None:
            trainer.restore(part)
        loop(trainer, None, None, [])
        return folder


@contextmanager
def _workers() -> Iterator[Workers | None]:
    """The workers that this process was started among, if any, left in the end."""
    workers = join_workers()
    try:
        yield workers
    finally:
        if workers is not None:
            workers.close()
