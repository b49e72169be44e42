"""What one worker owns, and one turn of the loop: collect, reward, learn, predict."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bebold.collect import Collector, Pipeline
from bebold.config import TrainConfig
from bebold.envs import make_envs
from bebold.errors import RunError, UsageError, out_of_memory
from bebold.evaluation import PROGRESS_SEED, make_policy, observation_shapes, play
from bebold.experiments.published import gives_up, solved_threshold, steps_to_solve
from bebold.gridworld.tasks import find_task
from bebold.learners import Learner, build_learner
from bebold.mapper import Observer, build_observers
from bebold.methods.build import build_intrinsic
from bebold.methods.counts import EpisodicCounter
from bebold.methods.keys import make_key
from bebold.networks import Policy
from bebold.parallel import Workers
from bebold.rollout import Rollout
from bebold.settings import LEVELS


class Trainer:
    """A worker's share of the environments, and its copies of the policy and the intrinsic reward."""

    def __init__(self, config: TrainConfig, workers: Workers):
        self.config = config
        self.workers = workers
        self.task = find_task(config.task)
        device = choose_device(config.device)
        share = config.num_envs // workers.size
        everything = make_envs(self.task, 1, full_grid=True)
        self.policy = make_policy(config, everything).to(device)
        self.intrinsic = build_intrinsic(
            config.method,
            config.intrinsic,
            obs_shapes=observation_shapes(everything),
            num_actions=self.policy.num_actions,
            max_steps=self.task.max_steps,
            guide=self.policy.guide,
            device=device,
            seed=config.seed,
            peers=workers,
        )
        self.observers: list[Observer] = build_observers(config, self.sample, peers=workers)
        self.needs = self.policy.needs.union(self.intrinsic.needs, *(observer.needs for observer in self.observers))
        # Workers act apart, and learn alike.
        _, split_seed = np.random.SeedSequence((config.seed, 0)).generate_state(2).tolist()
        action_seed, _ = np.random.SeedSequence((config.seed, workers.rank)).generate_state(2).tolist()
        self.learner: Learner = build_learner(config, self.policy, seed=split_seed, peers=workers)
        first_level = config.seed * LEVELS + workers.rank * share
        elapsed = self._first_times()[workers.rank * share :][:share] if config.staggered else None
        collector = self.collector(
            share, unroll=config.unroll, seed=first_level, action_seed=action_seed, elapsed=elapsed
        )
        self.pipeline = Pipeline(collector, config.policy_lag)
        self.steps = 0
        self.evaluations: list[tuple[int, float]] = []
        self.asked_at = 0

    def _first_times(self) -> np.ndarray:
        """At which steps of an episode the environments of all workers begin."""
        limit = self.task.limit(self.config.max_episode_steps)
        generator = np.random.default_rng(np.random.SeedSequence((self.config.seed, 0), spawn_key=(1,)))
        return generator.integers(limit, size=self.config.num_envs)

    def collector(
        self, num_envs: int, *, unroll: int, seed: int, action_seed: int, elapsed: np.ndarray | None = None
    ) -> Collector:
        """New environments as this run trains on, and what collects from them all that learning needs."""
        config = self.config
        return Collector(
            make_envs(
                self.task,
                num_envs,
                full_grid="grid" in self.needs,
                fixed_seed=config.fixed_level,
                max_episode_steps=config.max_episode_steps,
            ),
            key=make_key(config.intrinsic.key, config.intrinsic.key_bin),
            counter=EpisodicCounter.for_episodes(num_envs, self.task.max_steps),
            needs=self.needs,
            guide=self.policy.guide,
            unroll=unroll,
            seed=seed,
            action_seed=action_seed,
            device=choose_device(config.device),
            elapsed=elapsed,
        )

    def sample(self, steps: int, *, seed: int, policy: Policy | None = None) -> tuple[Rollout, Tensor]:
        """At least `steps` steps of the present or another policy in environments of its own, and the bonus `[T, B]`.

        It disturbs no training. `T` is as long as an episode can be: more environments for less long would show the
        beginnings of episodes too often, and one environment would take as long as many updates.
        """
        longest = min(steps, self.task.limit(self.config.max_episode_steps))
        collector = self.collector(-(-steps // longest), unroll=longest, seed=seed, action_seed=seed)
        rollout = collector.collect(policy or self.policy)
        collector.envs.close()
        return rollout, self.intrinsic.reward(rollout)

    def update(self) -> dict[str, float]:
        """One turn of the loop. Returns what all workers together measured."""
        clock = Stopwatch()
        progress = self.steps / self.config.total_steps
        with clock("collect"):
            rollout = self.pipeline.next(self.policy)
        with clock("reward"):
            bonus = self.intrinsic.reward(rollout)
            if self.config.intrinsic.coefficient_decay == "linear":
                bonus = max(0.0, 1 - progress / self.config.intrinsic.bonus_share) * bonus
        with clock("learn"):
            stats = self.learner.update(rollout, bonus, progress=progress)
        with clock("predict"):
            stats |= self.intrinsic.update(rollout)
        if self.observers:
            with clock("observe"):
                for observer in self.observers:
                    observer.observe(rollout, self.steps)
        steps = int(rollout.valid.sum())
        stats = self.agree(stats | clock.seconds | {"steps": steps})
        self.steps += round(stats.pop("steps") * self.workers.size)
        episodes = self.workers.gather(torch.tensor(self.pipeline.finished_episodes()).reshape(-1, 2))
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
        begun = time.perf_counter()
        episodes = range(PROGRESS_SEED, PROGRESS_SEED + self.config.evaluation.episodes)
        mine = episodes[self.workers.rank :: self.workers.size]
        returns = torch.zeros(0, 2)
        if len(mine):
            envs = make_envs(self.task, len(mine), full_grid="grid" in self.policy.observes)
            played = play(self.policy, envs, mine, action_seed=mine[0])
            returns = torch.tensor(np.stack((played.returns, played.lengths), axis=1)).float()
        mean_return, mean_length = self.workers.gather(returns).mean(dim=0).tolist()
        self.evaluations.append((self.steps, mean_return))
        return {
            "eval/return_mean": mean_return,
            "eval/length_mean": mean_length,
            "time/evaluate": time.perf_counter() - begun,
        }

    def evaluation_due(self, steps_before: int) -> bool:
        """Whether a multiple of the interval lies between `steps_before` and now."""
        interval = self.config.evaluation.interval
        return interval > 0 and self.steps // interval > steps_before // interval

    @property
    def steps_to_solve(self) -> int | None:
        """Steps at the first of three evaluations in a row at 95 % of the paper's return."""
        steps, returns = zip(*self.evaluations, strict=True) if self.evaluations else ((), ())
        return steps_to_solve(steps, returns, solved_threshold(self.task.short or ""))

    @property
    def finished(self) -> bool:
        """Whether all steps are taken; or the task is solved, and that is enough; or there is no hope."""
        solved = self.config.stop_when_solved and self.steps_to_solve is not None
        return solved or self.gave_up or self.steps >= self.config.total_steps

    @property
    def gave_up(self) -> bool:
        """Whether it stops as its last evaluations earned nothing."""
        return gives_up(self.config, self.steps, self.evaluations, self.asked_at)

    def state(self) -> dict[str, Any] | None:
        """The state of all workers, on rank 0; elsewhere None.

        Raises
        ------
        RunError : the workers' policies differ, which no mean of gradients should let happen
        """
        norms = self.workers.gather(torch.stack([p.detach().double().norm().cpu() for p in self.policy.parameters()]))
        if not torch.equal(*norms.view(self.workers.size, -1).aminmax(dim=0)):
            raise RunError("the workers' policies have drifted apart; go on from the last checkpoint or --workers 1")
        shards = self.workers.collect(self.pipeline.state_dict())
        if not shards:
            return None
        return {
            "steps": self.steps,
            "evaluations": self.evaluations,
            "learner": self.learner.state_dict(),
            "intrinsic": self.intrinsic.state_dict(),
            "observers": [observer.state_dict() for observer in self.observers],
            "collectors": shards,
        }

    def parts(self, state: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What each worker needs of a state, in order of rank."""
        shards = state.get("collectors")
        if not isinstance(shards, list) or not all(isinstance(shard, dict) for shard in shards):
            raise RunError("the checkpoint does not say what its workers collect; train anew with another --root")
        if len(shards) != self.workers.size:
            raise RunError(f"the checkpoint is of {len(shards)} workers; set workers to that in config.yaml")
        return [{**state, "collectors": [shard]} for shard in shards]

    def restore(self, part: Mapping[str, Any]) -> None:
        """Take up this worker's part of a state.

        Raises
        ------
        RunError : it does not fit these settings
        """
        try:
            self.steps, self.asked_at = int(part["steps"]), int(part.get("asked_at", 0))
            self.evaluations = [(int(steps), float(value)) for steps, value in part["evaluations"]]
            self.learner.load_state_dict(part["learner"])
            self.intrinsic.load_state_dict(part["intrinsic"])
            watched = part.get("observers", ())
            if len(watched) != len(self.observers):
                raise ValueError("it was saved with other maps, or without: leave maps.interval as it was")
            for observer, seen in zip(self.observers, watched, strict=True):
                observer.load_state_dict(seen)
            (shard,) = part["collectors"]
            self.pipeline.load_state_dict(shard)
            memories = [self.pipeline.collector.state, *(rollout.state for rollout in self.pipeline.waiting)]
            width = self.policy.initial_state(1).shape[1]
            if any(memory is not None and memory.shape[1] != width for memory in memories):
                raise ValueError("its memory is of another network")
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            if out_of_memory(error):
                raise
            reason = str(error).splitlines()[0]
            raise RunError(
                f"the checkpoint does not belong to these settings ({reason}); restore config.yaml or train anew"
            ) from None


def choose_device(device: str) -> torch.device:
    """`auto` is CUDA when there is one; under torchrun each process of a machine takes its own.

    Raises
    ------
    UsageError : CUDA was asked for, and there is none
    """
    available = torch.cuda.is_available()
    if device == "cuda" and not available:
        raise UsageError("no CUDA device is available; use --device cpu, or auto in config.yaml")
    if device == "cpu" or not available:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


class Stopwatch:
    """Seconds spent in each named stage, under `time/<stage>`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[f"time/{stage}"] = time.perf_counter() - begun
