"""Playing a trained policy: on Farama's own environments for results, on the fast engine for progress."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from bebold import checkpoint
from bebold.architectures import ARCHITECTURES
from bebold.config import TrainConfig
from bebold.envs import make_envs, make_farama_envs
from bebold.errors import RunError, UsageError
from bebold.gridworld.tasks import find_task
from bebold.methods.build import build_guide
from bebold.networks import Policy
from bebold.seeded import seeded
from bebold.settings import from_dict, resolve, validate

PROGRESS_SEED = 1_000_000_000
"""First seed of the held-out levels that are played during training."""
TEST_SEED = 2_000_000_000
"""First seed of the levels that results are played on. Training draws its levels from seeds below both."""
TEST_LEVELS = 512
"""Levels that a result is played on."""
BATCH = 64
"""Environments played side by side."""


@dataclass(frozen=True)
class Evaluation:
    """One episode on each of `N` levels."""

    returns: np.ndarray
    """float64 `[N]`."""
    lengths: np.ndarray
    """int64 `[N]`."""

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Standard deviation over episodes."""
        return float(self.returns.std())

    @property
    def solved(self) -> float:
        """Share of episodes with any reward."""
        return float((self.returns > 0).mean())


def evaluate(
    policy: Policy,
    task: str,
    *,
    episodes: int = TEST_LEVELS,
    seed: int = TEST_SEED,
    greedy: bool = False,
    engine: Literal["farama", "fast"] = "farama",
) -> Evaluation:
    """Play levels `seed` to `seed + episodes - 1`, one episode each, with sampled or greedy actions."""
    returns, lengths = [], []
    for first in range(seed, seed + episodes, BATCH):
        seeds = range(first, min(first + BATCH, seed + episodes))
        full_grid = "grid" in policy.observes
        if engine == "farama":
            envs = make_farama_envs(task, len(seeds), full_grid=full_grid, autoreset=False)
        else:
            envs = make_envs(task, len(seeds), full_grid=full_grid)
        with closing(envs):
            played = play(policy, envs, seeds, greedy=greedy, action_seed=first)
        returns.append(played.returns)
        lengths.append(played.lengths)
    return Evaluation(np.concatenate(returns), np.concatenate(lengths))


def play(
    policy: Policy, envs: VectorEnv, seeds: Sequence[int], *, greedy: bool = False, action_seed: int = 0
) -> Evaluation:
    """Play one episode in each of `B` environments, as `play_steps` does."""
    *_, (played, _) = play_steps(policy, envs, seeds, greedy=greedy, action_seed=action_seed)
    return played


def play_steps(
    policy: Policy, envs: VectorEnv, seeds: Sequence[int], *, greedy: bool = False, action_seed: int = 0
) -> Generator[tuple[Evaluation, np.ndarray]]:
    """Play one episode in each of `B` environments; those that have ended are left out of the policy's batch.

    If `greedy`, the policy's guide, too, chooses what is likeliest. Yields, after the reset and after each step, how
    the episodes went so far, and which of them go on, bool `[B]`.
    """
    num_envs = envs.num_envs
    state = policy.initial_state(num_envs)
    device = state.device
    generator = torch.Generator(device).manual_seed(action_seed)
    obs, _ = envs.reset(seed=list(seeds))  # type: ignore[arg-type]
    returns, lengths, playing = np.zeros(num_envs), np.zeros(num_envs, np.int64), np.ones(num_envs, bool)
    starts = torch.ones(num_envs, dtype=torch.bool)
    shown: dict[str, Tensor] = {}
    yield Evaluation(returns, lengths), playing
    with policy.unchanged():
        while playing.any():
            last, shown = shown, {name: torch.from_numpy(obs[name][playing]) for name in policy.observes}
            if policy.guide is not None:
                shown |= policy.guide.observe(shown, starts, last, greedy=greedy, generator=generator)
            seen = {name: shown[name].to(device) for name in policy.needs}
            step = policy.act(seen, state, starts.to(device), greedy=greedy, generator=generator)
            actions = np.zeros(num_envs, np.int64)
            actions[playing] = step.action.cpu().numpy()
            obs, reward, terminated, truncated, _ = envs.step(actions)
            returns, lengths = returns + np.where(playing, reward, 0.0), lengths + playing
            ended = terminated | truncated
            going_on = torch.from_numpy(~ended[playing])
            shown = {name: x[going_on] for name, x in shown.items()}
            state = step.state[going_on.to(device)]
            starts = torch.zeros(len(state), dtype=torch.bool)
            playing = playing & ~ended
            yield Evaluation(returns, lengths), playing


def make_policy(config: TrainConfig, envs: VectorEnv) -> Policy:
    """An untrained policy for these environments, with its guide if the method has one.

    The same seed gives the same weights. The environments show what it observes.
    """
    shapes = observation_shapes(envs)
    kind = ARCHITECTURES[str(resolve(config).network.architecture)]
    with seeded(config.seed):
        policy = kind(shapes[kind.source], int(envs.single_action_space.n), config.network)  # type: ignore[attr-defined,call-arg]
    policy.guide = build_guide(config.method, obs_shapes=shapes, seed=config.seed)
    return policy


def observation_shapes(envs: VectorEnv) -> dict[str, tuple[int, ...]]:
    """Name and shape of each observation of one environment."""
    return {name: space.shape for name, space in envs.single_observation_space.items()}  # type: ignore[attr-defined]


def load_policy(source: Path | str) -> tuple[Policy, TrainConfig]:
    """The trained policy of a run folder, or of a file of weights, and the settings it was trained with.

    Raises
    ------
    UsageError : there are no weights
    RunError : the file cannot be read
    """
    path = Path(source)
    if path.is_dir():
        path = path / "weights.safetensors"
    if not path.exists():
        raise UsageError(
            f"{source} holds no trained policy; name a run folder or a .safetensors file, or a task with --pretrained"
        )
    weights, metadata = checkpoint.load_weights(path)
    if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
        raise RunError(f"{path} holds numbers that are not finite; resume the run to write it anew")
    try:
        config = from_dict(TrainConfig, json.loads(metadata["config"]), str(path))
        validate(config)
        task = find_task(config.task)  # Gymnasium's own ids could name a module to import
        envs = make_envs(task, 1, full_grid=True)
        policy = make_policy(config, envs)
        envs.close()
        policy.load_state_dict(weights)
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(
            f"{path} is not what a run of this program wrote ({reason}); name a run folder, or resume the run to "
            "write it anew"
        ) from None
    return policy.eval(), config
