"""Sets of defaults: ours, and those of the paper that each method comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from bebold.config import (
    AMIGoConfig,
    ICMConfig,
    IMPALAConfig,
    IntrinsicConfig,
    NetworkConfig,
    Preset,
    RNDConfig,
    TrainConfig,
)
from bebold.errors import look_up
from bebold.experiments import dynamic_obstacles, static, table2
from bebold.gridworld.tasks import find_task

PRESETS = get_args(Preset)
BUDGETS = static.STEPS | dynamic_obstacles.STEPS | table2.STEPS
"""Environment steps of a run on each task that our tables have, by the paper's short name or else the id."""
UNROLL = 100
"""Steps of an update in all of these papers. Their losses are sums over it, ours means."""

PAPERS_IMPALA = IMPALAConfig(
    minibatches=1,
    learning_rate=1e-4,
    rms_eps=0.01,
    entropy=5e-4,
    extrinsic_scale=1.0,
    reward_clip=1.0,
    bootstrap_timeouts=False,
)
"""BeBold's appendix and released settings, from which those of single methods depart."""


def preset(name: Preset = "fast", *, method: str = "bebold", task: str = "KCS3R3") -> TrainConfig:
    """The settings of a preset for a method on a task.

    fast: ours, the same for all methods, with the steps that our tables give the task, or its `-v0` id. paper:
    networks, inputs, learner and coefficients of the paper that the method comes from, as far as known
    (docs/methods.md); methods without a paper of their own take BeBold's.

    Raises
    ------
    UsageError : there is no such preset
    UnknownTask : there is no such task
    """
    look_up("preset", name, dict.fromkeys(PRESETS))
    config = TrainConfig(method=method, task=task)
    known = find_task(task)
    if name == "fast":
        return replace(config, total_steps=BUDGETS.get(known.name.removesuffix("-v1"), config.total_steps))
    config = replace(
        config,
        preset="paper",
        label=f"{method}-paper",
        learner="impala",
        impala=PAPERS_IMPALA,
        total_steps=120_000_000,
        num_envs=32,
        unroll=UNROLL,
        policy_lag=1,
    )
    return PAPERS.get(method, _bebold)(config)


def _bebold(config: TrainConfig) -> TrainConfig:
    """BeBold's appendix, and its released code for what the appendix leaves out, and for RMSProp's ε: with the
    appendix's, .01, nothing is learnt for long (docs/research-log.md)."""
    return replace(
        config,
        network=NetworkConfig(architecture="bebold", hidden=1024, memory=1024),
        impala=replace(PAPERS_IMPALA, rms_eps=1e-5),
        intrinsic=IntrinsicConfig(
            coefficient=0.05 if find_task(config.task).family == "obstructed_maze" else 0.1,
            coefficient_decay="none",
            alpha=1.0,
            key="observation",
            rnd=RNDConfig(architecture="bebold", encoding="integers", normalise_target=False, minibatches=1),
        ),
    )


def _ride_agent(config: TrainConfig, intrinsic: IntrinsicConfig) -> TrainConfig:
    """RIDE's agent, with which its paper, and BeBold's after it, compares RND, ICM and IMPALA."""
    network = NetworkConfig(architecture="ride", memory=256)
    return replace(config, network=network, intrinsic=replace(intrinsic, coefficient_decay="none"))


def _impala(config: TrainConfig) -> TrainConfig:
    return _ride_agent(config, IntrinsicConfig())


def _count(config: TrainConfig) -> TrainConfig:
    return _ride_agent(config, IntrinsicConfig(coefficient=0.1, key="observation"))


def _rnd(config: TrainConfig) -> TrainConfig:
    rnd = RNDConfig(
        architecture="ride",
        encoding="bytes",
        outputs=128,
        normalise_target=False,
        loss_scale=0.1 * UNROLL,
        optimiser="rmsprop",
        max_grad_norm=40.0,
        minibatches=1,
    )
    return _ride_agent(config, IntrinsicConfig(coefficient=0.1, rnd=rnd))


def _curious(config: TrainConfig, coefficient: float, entropy: float) -> TrainConfig:
    icm = ICMConfig(
        architecture="ride",
        encoding="bytes",
        outputs=128,
        forward_loss=10.0 * UNROLL,
        inverse_loss=0.1 * UNROLL,
        optimiser="rmsprop",
        learning_rate=1e-4,
        max_grad_norm=40.0,
        epochs=1,
        minibatches=1,
    )
    intrinsic = IntrinsicConfig(coefficient=coefficient, key="full_state", icm=icm)
    return replace(_ride_agent(config, intrinsic), impala=replace(PAPERS_IMPALA, entropy=entropy))


def _icm(config: TrainConfig) -> TrainConfig:
    return _curious(config, 0.1, 5e-4)


def _ride(config: TrainConfig) -> TrainConfig:
    corridor = find_task(config.task).family == "key_corridor"
    return _curious(config, 0.1, 5e-4) if corridor else _curious(config, 0.5, 1e-3)


def _amigo(config: TrainConfig) -> TrainConfig:
    """AMIGo's appendix; of the teacher's numbers, those that are not the defaults.

    The bonus with the reward adds up to what its student learns from, and must not be clamped again.
    """
    impala = replace(PAPERS_IMPALA, learning_rate=1e-3, reward_clip=0.0)
    intrinsic = IntrinsicConfig(coefficient=1.0, coefficient_decay="none", amigo=AMIGoConfig(batch=150, entropy=0.01))
    return replace(config, staggered=False, num_envs=8, impala=impala, intrinsic=intrinsic)


PAPERS: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "none": _impala,
    "count": _count,
    "rnd": _rnd,
    "icm": _icm,
    "ride": _ride,
    "amigo": _amigo,
}
"""From the common settings to those of a method's paper."""
