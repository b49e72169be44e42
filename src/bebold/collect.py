"""Policy × environments × counter → Rollout."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from bebold.guide import Guide
from bebold.methods.counts import EpisodicCounter
from bebold.methods.keys import KeyFunction
from bebold.networks import Policy
from bebold.rollout import Rollout


class Collector:
    """Steps `B` environments under a policy and keeps what happens.

    Parameters
    ----------
    envs : a vector environment with NEXT_STEP autoreset and `Dict` observations
    key : turns (observations, info) into the 64-bit keys that are counted, uint64 `[B]`
    counter : counts the keys' visits within each episode
    needs : names of the observations to keep, or of arrays in `info`; `key` keeps the keys themselves
    guide : of the policy that acts, if it has one; what it adds is kept too
    unroll : `T`, steps per rollout
    seed : of the environments
    action_seed : of the sampled actions
    elapsed : steps int64 `[B]` that count as taken when the first episodes begin; None: none
    """

    def __init__(
        self,
        envs: VectorEnv,
        *,
        key: KeyFunction,
        counter: EpisodicCounter,
        needs: frozenset[str],
        unroll: int,
        seed: int,
        action_seed: int,
        guide: Guide | None = None,
        device: torch.device | str = "cpu",
        elapsed: np.ndarray | None = None,
    ):
        self.envs = envs
        self.key = key
        self.counter = counter
        self.guide = guide
        self.needs = needs if guide is None else (needs - guide.gives) | guide.needs
        self.unroll = unroll
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed(action_seed)
        self.episodes: list[tuple[float, int]] = []
        self.state: Tensor | None = None
        obs, info = envs.reset(seed=seed, options=None if elapsed is None else {"elapsed": elapsed})
        self.starts = np.ones(envs.num_envs, bool)
        self.ended = np.zeros(envs.num_envs, bool)
        self.obs: dict[str, Tensor] = {}
        self.obs = self._look(obs, info, guide)

    def collect(self, policy: Policy) -> Rollout:
        """Act for `unroll` steps; episodes go on across calls."""
        with policy.unchanged():
            return self._collect(policy)

    def _collect(self, policy: Policy) -> Rollout:
        steps, num_envs = self.unroll, self.envs.num_envs
        state = policy.initial_state(num_envs) if self.state is None else self.state
        first_state = state
        obs = {name: x.new_empty((steps + 1, *x.shape)) for name, x in self.obs.items()}
        device = self.device
        reward = np.empty((steps, num_envs), np.float32)
        terminated = np.empty((steps, num_envs), bool)
        truncated = np.empty((steps, num_envs), bool)
        starts = np.empty((steps + 1, num_envs), bool)
        action = torch.empty(steps, num_envs, dtype=torch.int64, device=device)
        log_prob = torch.empty(steps, num_envs, device=device)
        values = []

        def show(t: int) -> dict[str, Tensor]:
            for name, x in self.obs.items():
                obs[name][t] = x
            starts[t] = self.starts
            return {name: obs[name][t].to(device, non_blocking=True) for name in policy.needs}

        for t in range(steps):
            step = policy.act(show(t), state, self._start_tensor(), generator=self.generator)
            state = step.state
            action[t], log_prob[t] = step.action, step.log_prob
            values.append(step.value)
            raw_obs, reward[t], terminated[t], truncated[t], info = self.envs.step(step.action.cpu().numpy())
            self.starts, self.ended = self.ended, terminated[t] | truncated[t]
            if "episode" in info:
                done = info["_episode"]
                self.episodes += zip(
                    info["episode"]["r"][done].tolist(), info["episode"]["l"][done].tolist(), strict=True
                )
            self.obs = self._look(raw_obs, info, policy.guide)
        self.state = state
        last = policy.act(show(steps), state, self._start_tensor(), greedy=True)
        values.append(last.value)
        counts = obs.pop("episodic_count")
        return Rollout(
            obs={name: x.to(device) for name, x in obs.items()},
            action=action,
            reward=torch.from_numpy(reward).to(device),
            terminated=torch.from_numpy(terminated).to(device),
            truncated=torch.from_numpy(truncated).to(device),
            starts=torch.from_numpy(starts).to(device),
            episodic_count=counts.to(device),
            log_prob=log_prob,
            value=torch.stack(values),
            state=first_state,
        )

    def finished_episodes(self) -> list[tuple[float, int]]:
        """Returns and lengths of the episodes that ended since the last call."""
        episodes, self.episodes = self.episodes, []
        return episodes

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next rollout depends on, environments included; tensors and primitives only."""
        return {
            "envs": to_tensors(self.envs.get_state()),  # type: ignore[attr-defined]
            "counter": to_tensors(self.counter.state_dict()),
            "generator": self.generator.get_state(),
            "obs": dict(self.obs),
            "starts": torch.from_numpy(self.starts.copy()),
            "ended": torch.from_numpy(self.ended.copy()),
            "state": self.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state of as many environments of the same kind.

        Raises
        ------
        ValueError : it is of others; what is read by number is checked before it is used
        """
        memory = state["state"]
        kept = {name: (x.shape, x.dtype) for name, x in self.obs.items()}
        flags = [(x.shape, x.dtype) for x in (state["starts"], state["ended"])]
        fits = (
            {name: (x.shape, x.dtype) for name, x in state["obs"].items()} == kept
            and flags == [(torch.Size([self.envs.num_envs]), torch.bool)] * 2
            and (memory is None or (len(memory) == self.envs.num_envs and memory.dtype == torch.float32))
        )
        if not fits:
            raise ValueError(f"the saved observations are not of {self.envs.num_envs} environments of this kind")
        if self.guide is not None:
            self.guide.check(state["obs"])
        self.envs.set_state(to_arrays(state["envs"]))  # type: ignore[attr-defined]
        self.counter.load_state_dict(to_arrays(state["counter"]))
        self.generator.set_state(state["generator"])
        self.obs = dict(state["obs"])
        self.starts = state["starts"].numpy().copy()
        self.ended = state["ended"].numpy().copy()
        self.state = None if memory is None else memory.to(self.device)

    def _look(self, obs: Mapping[str, np.ndarray], info: Mapping[str, Any], guide: Guide | None) -> dict[str, Tensor]:
        """Count the present observations, let the guide add its own, and keep what is needed."""
        keys = self.key(obs, info)
        shown = {**info, **obs, "key": keys.view(np.int64)}
        kept = {name: torch.from_numpy(np.ascontiguousarray(shown[name])) for name in self.needs}
        if guide is not None:
            kept |= guide.observe(kept, torch.from_numpy(self.starts), self.obs, generator=self.generator)
        kept["episodic_count"] = torch.from_numpy(self.counter.visit(keys, self.starts))
        return kept

    def _start_tensor(self) -> Tensor:
        return torch.from_numpy(self.starts).to(self.device)


class Pipeline:
    """Collects ahead of the learner: the weights that act are `lag` updates behind those that learn from it.

    With a lag of 1 or more, a thread collects the next rollout while the learner learns from the oldest that waits.
    """

    def __init__(self, collector: Collector, lag: int = 0):
        self.collector = collector
        self.lag = lag
        self.waiting: deque[Rollout] = deque()
        self._finished: list[tuple[float, int]] = []
        self._actor: Policy | None = None
        self._thread = ThreadPoolExecutor(1) if lag else None
        self._collecting: Future[Rollout] | None = None

    def next(self, policy: Policy) -> Rollout:
        """The rollout to learn from now."""
        if self._thread is None:
            return self.collector.collect(policy)
        self._join()
        while len(self.waiting) < self.lag:
            self.waiting.append(self.collector.collect(policy))
        # Taken now, since the thread goes on adding to them: which ones are told must not depend on its speed.
        self._finished += self.collector.finished_episodes()
        if self._actor is None:
            self._actor = copy.deepcopy(policy)
        self._actor.load_state_dict(policy.state_dict())
        self._collecting = self._thread.submit(self.collector.collect, self._actor)
        return self.waiting.popleft()

    def finished_episodes(self) -> list[tuple[float, int]]:
        """Returns and lengths of the episodes that had ended when the last rollout was asked for."""
        if self._thread is None:
            return self.collector.finished_episodes()
        finished, self._finished = self._finished, []
        return finished

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next rollouts depend on, those that wait included; tensors and primitives only."""
        self._join()
        rollouts = [rollout.to("cpu") for rollout in self.waiting]
        return self.collector.state_dict() | {
            "waiting": [{f.name: getattr(rollout, f.name) for f in fields(Rollout)} for rollout in rollouts],
            "episodes": list(self.collector.episodes),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state of the same lag.

        Raises
        ------
        ValueError : it is of another lag, or of other environments
        """
        self._join()
        rollouts = [Rollout(**values).to(self.collector.device) for values in state.get("waiting", [])]
        if len(rollouts) not in (0, self.lag):
            raise ValueError(f"{len(rollouts)} rollouts wait in it, and policy_lag is {self.lag}")
        self.collector.load_state_dict(state)
        for rollout in rollouts:
            self._check(rollout)
        self.collector.episodes = [(float(r), int(length)) for r, length in state.get("episodes", [])]
        self.waiting = deque(rollouts)
        self._finished = []

    def _check(self, rollout: Rollout) -> None:
        """Refuse a rollout that this collector cannot have made (`ValueError`). Its own observations are checked."""
        collector = self.collector
        steps, num_envs = collector.unroll, collector.envs.num_envs
        count = int(collector.envs.single_action_space.n)  # type: ignore[attr-defined]
        step, seen = (steps, num_envs), (steps + 1, num_envs)
        expected = {
            "action": (step, torch.int64),
            "reward": (step, torch.float32),
            "terminated": (step, torch.bool),
            "truncated": (step, torch.bool),
            "starts": (seen, torch.bool),
            "episodic_count": (seen, torch.int32),
            "log_prob": (step, torch.float32),
            "value": ((*seen, rollout.value.shape[-1]), torch.float32),
            "state": ((num_envs, rollout.state.shape[-1]), torch.float32),
        }
        found = {name: (tuple(x.shape), x.dtype) for name in expected for x in (getattr(rollout, name),)}
        shown = {n: ((steps + 1, *x.shape), x.dtype) for n, x in collector.obs.items() if n != "episodic_count"}
        fits = found == expected and {n: (tuple(x.shape), x.dtype) for n, x in rollout.obs.items()} == shown
        possible = fits and rollout.action.min() >= 0 and rollout.action.max() < count
        if not possible or rollout.episodic_count.min() < 1:
            raise ValueError("the rollouts that wait in it are of other environments")
        if collector.guide is not None:
            collector.guide.check(rollout.obs)

    def _join(self) -> None:
        if self._collecting is not None:
            collected, self._collecting = self._collecting, None
            self.waiting.append(collected.result())


def to_tensors(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """NumPy arrays as tensors, which a checkpoint can hold; unsigned 64-bit integers by their bit pattern."""
    return {
        name: (
            x.dtype.name,
            torch.from_numpy(np.ascontiguousarray(x.view(f"i{x.itemsize}") if x.dtype.kind == "u" else x)),
        )
        if isinstance(x, np.ndarray)
        else x
        for name, x in arrays.items()
    }


def to_arrays(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `to_tensors`."""
    return {name: x[1].numpy().view(x[0]) if isinstance(x, tuple | list) else x for name, x in tensors.items()}
