"""Settings: as files, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest

from bebold import settings
from bebold.config import (
    AMIGoConfig,
    EvaluationConfig,
    ICMConfig,
    IMPALAConfig,
    IntrinsicConfig,
    MapsConfig,
    NetworkConfig,
    PPOConfig,
    RNDConfig,
    TrainConfig,
)
from bebold.defaults import OF_TASKS, USUAL
from bebold.errors import UsageError
from bebold.evaluation import PROGRESS_SEED, TEST_SEED
from bebold.gridworld.tasks import TASKS, UnknownTask
from bebold.methods.recipes import RECIPES
from bebold.settings import differences, from_yaml, resolve, to_yaml, validate, worker_count

CONFIG = TrainConfig(task="KCS4R3", method="rnd", seed=3)


def test_settings_survive_yaml() -> None:
    assert from_yaml(to_yaml(CONFIG, {"version": "1", "commit": None})) == CONFIG


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("config: {sede: 1}", "unknown setting sede; did you mean seed"),
        ("config: {ppo: {entropi: 1}}", "unknown setting ppo.entropi; did you mean ppo.entropy"),
        ("config: {zzz: 1}", "unknown setting zzz; remove it"),
        ("config: {seed: x}", "seed is 'x'; it takes a value of type int"),
        ("config: {seed: true}", "seed is True; it takes a value of type int"),
        ("config: {ppo: 3}", "ppo is a group of settings"),
        ("config: {device: gpu}", "device is 'gpu'; choose one of auto, cpu, cuda"),
        ("config: {network: {architecture: cnn}}", "architecture is 'cnn'; choose one of mlp-gru, amigo"),
        ("config: [", "not valid YAML"),
        ("config: 2001-99-99", "not valid YAML"),
        ("just text", "has no section `config`"),
    ],
)
def test_bad_settings_files_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        from_yaml(text)


def test_a_setting_that_is_missing_takes_its_default() -> None:
    config = from_yaml("config: {ppo: {clip: 0.1}}")
    assert config == TrainConfig(ppo=PPOConfig(clip=0.1))


def test_numbers_as_people_write_them() -> None:
    config = from_yaml("config: {ppo: {entropy: 5e-4, clip: 1}}")
    assert config.ppo.entropy == 5e-4 and config.ppo.clip == 1.0


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (TrainConfig(num_envs=0), "num_envs is 0; it must be positive"),
        (TrainConfig(unroll=-4), "unroll is -4"),
        (TrainConfig(total_steps=0), "total_steps is 0"),
        (TrainConfig(seed=-1), "seed is -1; it must be a number that is not negative"),
        (TrainConfig(label="../elsewhere"), "label is '../elsewhere'; it names a folder: use letters"),
        (TrainConfig(label=".hidden"), "label is '.hidden'"),
        (TrainConfig(seed=1000), "seed is 1000; it must be below 1000"),
        (
            TrainConfig(workers=3),
            r"num_envs is 256; it must be a multiple of workers x ppo.minibatches = 3 x",
        ),
        (TrainConfig(workers=2, num_envs=6, ppo=PPOConfig(minibatches=4)), "must be a multiple of .* = 8"),
        (TrainConfig(ppo=PPOConfig(minibatches=0)), "ppo.minibatches is 0"),
        (TrainConfig(ppo=PPOConfig(learning_rate=0)), "ppo.learning_rate is 0; it must be positive"),
        (TrainConfig(ppo=PPOConfig(learning_rate=math.inf)), "ppo.learning_rate is inf"),
        (TrainConfig(ppo=PPOConfig(entropy=math.nan)), "ppo.entropy is nan"),
        (TrainConfig(ppo=PPOConfig(discount=1.5)), "ppo.discount is 1.5; it must lie between 0 and 1"),
        (TrainConfig(evaluation=EvaluationConfig(episodes=0)), "evaluation.episodes is 0"),
        (TrainConfig(evaluation=EvaluationConfig(episodes=100_001)), "episodes is 100,001; it must be at most 100,000"),
        (TrainConfig(num_envs=2**17), "num_envs is 131,072; it must be at most 65,536"),
        (TrainConfig(total_steps=10**12), "total_steps is 1,000,000,000,000; it must be at most 999,999,999,999"),
        (TrainConfig(network=NetworkConfig(hidden=10**8)), "network.hidden is 100,000,000; it must be at most 4,096"),
        (TrainConfig(workers=100_000), "workers is 100,000; it must be at most 1,024"),
        (TrainConfig(unroll=20_000), "num_envs x unroll is 5,120,000; .*lower one until it is at most 4,194,304"),
        (TrainConfig(policy_lag=500), "policy_lag is 500; it must be at most 100"),
        (TrainConfig(policy_lag=99, unroll=400), r"num_envs x unroll x \(policy_lag \+ 1\) is 10,240,000"),
        (TrainConfig(learner="impala", workers=3), "must be a multiple of workers x impala.minibatches = 3 x 8 = 24"),
        (TrainConfig(intrinsic=IntrinsicConfig(rnd=RNDConfig(target_layers=17))), "target_layers is 17"),
        (TrainConfig(intrinsic=IntrinsicConfig(count_capacity=1000)), "count_capacity is 1000; it must be a power"),
        (TrainConfig(intrinsic=IntrinsicConfig(count_capacity=1)), "count_capacity is 1; it must be a power"),
        (TrainConfig(intrinsic=IntrinsicConfig(count_capacity=2**31)), "count_capacity is .*; it must be at most"),
        (
            TrainConfig(stop_when_solved=True, evaluation=EvaluationConfig(interval=0)),
            "stop_when_solved needs progress evaluations; set evaluation.interval",
        ),
        (TrainConfig(give_up_at=-1), "give_up_at is -1; it must"),
        (
            TrainConfig(give_up_at=10, evaluation=EvaluationConfig(interval=0)),
            "give_up_at needs progress evaluations; set evaluation.interval",
        ),
        (
            TrainConfig(stop_when_solved=True, task="OM2Dlhb-v1"),
            "the paper gives none for OM2Dlhb-v1; set total_steps",
        ),
        (
            TrainConfig(stop_when_solved=True, task="MiniGrid-Empty-5x5-v0"),
            "the paper gives none for MiniGrid-Empty-5x5-v0; set total_steps",
        ),
        (
            TrainConfig(network=NetworkConfig(architecture="amigo")),
            "amigo, which looks at a goal, and the method bebold sets none; use --method amigo or",
        ),
        (TrainConfig(intrinsic=IntrinsicConfig(amigo=AMIGoConfig(batch=0))), "intrinsic.amigo.batch is 0"),
        (TrainConfig(intrinsic=IntrinsicConfig(bonus_share=0.0)), "bonus_share is 0.0; it must be positive"),
        (TrainConfig(intrinsic=IntrinsicConfig(bonus_share=1.5)), "bonus_share is 1.5; it must lie between 0 and 1"),
        (
            TrainConfig(intrinsic=IntrinsicConfig(rnd=RNDConfig(architecture="ride"))),
            "intrinsic.rnd.architecture is ride, .* intrinsic.rnd.encoding is contact; choose codes, integers or bytes",
        ),
        (
            TrainConfig(intrinsic=IntrinsicConfig(rnd=RNDConfig(architecture="ride", encoding="bytes"))),
            "normalise_target needs a dense last layer",
        ),
        (
            TrainConfig(maps=MapsConfig(interval=1000)),
            "maps.interval asks for maps of one level; choose .* fixed_level",
        ),
        (TrainConfig(fixed_level=0, maps=MapsConfig(interval=1000, steps=0)), "maps.steps is 0; it must be positive"),
        (
            TrainConfig(fixed_level=0, total_steps=1_000_000, maps=MapsConfig(interval=1000)),
            "maps.interval is 1,000; 1,000,000 steps would have more than 1,000 maps: set it to 1,001 or more",
        ),
        (TrainConfig(fixed_level=-1), "fixed_level is -1"),
        (TrainConfig(fixed_level=10**9), "fixed_level is 1,000,000,000; it must be at most 999,999,999"),
        (TrainConfig(intrinsic=IntrinsicConfig(key="discretised")), "MiniGrid shows images; choose contact or"),
        (TrainConfig(intrinsic=IntrinsicConfig(rnd=RNDConfig(encoding="raw"))), "rnd.encoding is raw, .*choose onehot"),
        (
            TrainConfig(method="ride", intrinsic=IntrinsicConfig(icm=ICMConfig(encoding="raw"))),
            "icm.encoding is raw, .*choose onehot",
        ),
        (TrainConfig(method="bbold"), "there is no method 'bbold'; did you mean bebold"),
    ],
)
def test_impossible_settings_are_refused(config: TrainConfig, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        validate(config)


def test_pure_exploration_of_one_level_is_possible() -> None:
    config = TrainConfig(fixed_level=0, maps=MapsConfig(interval=100_000), ppo=PPOConfig(extrinsic_scale=0.0))
    validate(config)
    assert from_yaml(to_yaml(config, {"version": "1", "commit": None})) == config
    validate(TrainConfig(learner="impala", impala=IMPALAConfig(extrinsic_scale=0.0)))


def test_levels_for_training_and_for_judging_never_meet() -> None:
    assert settings.LARGEST["fixed_level"] < PROGRESS_SEED
    assert settings.LARGEST["num_envs"] <= settings.LEVELS
    assert settings.SEEDS * settings.LEVELS <= PROGRESS_SEED
    assert PROGRESS_SEED + settings.LARGEST["evaluation.episodes"] <= TEST_SEED


def test_every_limit_is_of_a_setting() -> None:
    for name in set(settings.LARGEST) | settings.MAY_BE_ZERO | settings.SHARES:
        attrgetter(name)(TrainConfig())


def test_every_default_is_of_a_setting_that_is_left_open() -> None:
    for table in (USUAL, *OF_TASKS.values(), *(recipe.defaults for recipe in RECIPES.values())):
        for name in table:
            assert attrgetter(name)(TrainConfig()) is None
            assert name in USUAL
    for start in OF_TASKS:
        assert any(task.id.startswith(start) for task in TASKS)


def test_commits_of_settings_files_old_and_edited() -> None:
    assert settings.commits({"version": "0.1.0", "commit": "a"}) == ["a"]
    assert settings.commits({"version": "0.1.0", "commit": None}) == ["version 0.1.0"]
    assert settings.commits({"commit": "a", "resumed_with": None}) == ["a"]
    assert settings.commits({"commit": "a", "resumed_with": 7}) == ["a", "7"]


@pytest.mark.parametrize(
    ("method", "asked", "expected"),
    [("bebold", None, "mlp-gru"), ("amigo", None, "amigo"), ("amigo", "mlp-gru", "mlp-gru")],
)
def test_the_method_s_own_network_is_filled_in(method: str, asked: Any, expected: str) -> None:
    config = TrainConfig(method=method, network=NetworkConfig(architecture=asked))
    validate(config)
    resolved = settings.resolve(config)
    assert resolved.network == NetworkConfig(architecture=expected)  # type: ignore[arg-type]
    assert from_yaml(to_yaml(resolved, {})) == resolved == settings.resolve(resolved)


@pytest.mark.parametrize(
    ("task", "name", "asked", "expected"),
    [
        ("KCS6R3", "huber_delta", None, 1.0),
        ("MRN12S10", "huber_delta", None, 1.0),
        ("OM2Dlh", "huber_delta", None, 3.0),
        ("OMFull", "huber_delta", 0.0, 0.0),
        ("KCS3R3", "huber_delta", 2.0, 2.0),
        ("KCS3R3", "entropy", None, 5e-3),
        ("MiniGrid-LavaGapS7-v0", "entropy", None, 0.05),
        ("MiniGrid-LavaCrossingS9N1-v0", "entropy", None, 0.02),
        ("MiniGrid-LavaCrossingS9N1-v0", "entropy", 0.0, 0.0),
        ("MiniGrid-SimpleCrossingS9N1-v0", "entropy", None, 5e-3),
    ],
)
def test_the_task_s_own_numbers_are_filled_in(task: str, name: str, asked: float | None, expected: float) -> None:
    ppo = replace(PPOConfig(), **{name: asked})  # type: ignore[arg-type]
    resolved = settings.resolve(TrainConfig(task=task, ppo=ppo))
    assert getattr(resolved.ppo, name) == expected
    assert from_yaml(to_yaml(resolved, {})) == resolved == settings.resolve(resolved)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(UnknownTask, match="did you mean KCS3R3"):
        validate(TrainConfig(task="KCS3R33"))


def test_workers_share_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.os, "sched_getaffinity", lambda _: range(6), raising=False)
    minibatched = replace(CONFIG, ppo=PPOConfig(minibatches=4))
    assert worker_count(minibatched) == 4  # of 6 cores: 256 / 4 does not divide by 6 or 5
    assert worker_count(replace(minibatched, workers=3)) == 3
    validate(minibatched)


def test_what_neither_run_reads_makes_no_difference():
    one, icm = TrainConfig(), IntrinsicConfig(icm=ICMConfig(forward_loss=3.0))
    assert differences(one, replace(one, intrinsic=icm), set()) == []
    assert differences(one, replace(one, impala=IMPALAConfig(entropy=0.5)), set()) == []
    assert differences(one, replace(one, ppo=PPOConfig(entropy=0.5)), set()) == [("ppo.entropy", None, 0.5)]
    ride = replace(one, method="ride")
    assert differences(ride, replace(ride, intrinsic=icm), set()) == [("intrinsic.icm.forward_loss", 0.01, 3.0)]
    names = {name for name, _, _ in differences(one, replace(ride, intrinsic=icm), set())}
    assert names == {"method", "intrinsic.icm.forward_loss"}


@pytest.mark.parametrize(
    ("method", "task", "coefficient", "huber_delta"),
    [
        ("bebold", "KCS3R3", 1.0, 1.0),
        ("bebold", "OM2Q", 1.0, 3.0),
        ("episodic", "MRN6", 0.3, 1.0),
        ("episodic", "OM2Q", 0.3, 3.0),
    ],
)
def test_one_number_differs_between_families(method: str, task: str, coefficient: float, huber_delta: float) -> None:
    config = resolve(TrainConfig(method=method, task=task))
    assert (config.intrinsic.coefficient, config.ppo.huber_delta) == (coefficient, huber_delta)


def test_a_coefficient_that_is_asked_for_stays() -> None:
    config = TrainConfig(task="OM2Q", intrinsic=IntrinsicConfig(coefficient=0.05))
    assert resolve(config).intrinsic.coefficient == 0.05


@pytest.mark.parametrize(("method", "asked", "epochs"), [("icm", None, 4), ("ride", None, 1), ("icm", 2, 2)])
def test_the_passes_of_icms_models_are_the_methods_own(method: str, asked: int | None, epochs: int) -> None:
    config = TrainConfig(method=method, intrinsic=IntrinsicConfig(icm=ICMConfig(epochs=asked)))
    assert resolve(config).intrinsic.icm.epochs == epochs
    assert resolve(resolve(config)) == resolve(config)
