"""Settings as YAML and back, and the refusal of impossible ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

import bebold
from bebold.config import MOST_MAPS, TrainConfig
from bebold.defaults import USUAL, filled_in, of_task
from bebold.errors import UsageError, read_text
from bebold.experiments.published import solved_threshold
from bebold.gridworld.tasks import find_task
from bebold.methods.recipes import RECIPES, Group, find_recipe

T = TypeVar("T")

MAY_BE_ZERO = {
    "seed",
    "max_episode_steps",
    "give_up_at",
    "fixed_level",
    "workers",
    "checkpoint_interval",
    "evaluation.interval",
    "maps.interval",
    "ppo.extrinsic_scale",
    "ppo.entropy",
    "ppo.value_loss",
    "ppo.huber_delta",
    "ppo.discount",
    "ppo.gae_lambda",
    "impala.discount",
    "impala.rms_decay",
    "impala.extrinsic_scale",
    "impala.entropy",
    "impala.value_loss",
    "impala.reward_clip",
    "policy_lag",
    "intrinsic.coefficient",
    "intrinsic.alpha",
    "intrinsic.rnd.target_layers",
    "intrinsic.rnd.predictor_layers",
    "intrinsic.rnd.max_grad_norm",
    "intrinsic.icm.layers",
    "intrinsic.icm.forward_loss",
    "intrinsic.icm.inverse_loss",
    "intrinsic.icm.max_grad_norm",
    "intrinsic.amigo.entropy",
    "intrinsic.amigo.value_loss",
    "intrinsic.amigo.penalty",
    "intrinsic.amigo.good_reward",
    "intrinsic.amigo.solved_reward",
}
SHARES = {"intrinsic.bonus_share", "ppo.discount", "ppo.gae_lambda", "impala.discount", "impala.rms_decay"}
LEVELS = 1_000_000
"""Levels of one training run: environment i of seed s begins on level s * LEVELS + i."""
SEEDS = 1000
"""Seeds of training runs are below this: the levels beyond SEEDS * LEVELS are for evaluation."""
LARGEST = {
    "total_steps": 10**12 - 1,  # twelve digits in a checkpoint's name
    "num_envs": 2**16,  # fewer than LEVELS
    "max_episode_steps": 10**9,
    "give_up_at": 10**12 - 1,
    "fixed_level": SEEDS * LEVELS - 1,
    "unroll": 100_000,
    "workers": 1024,
    "policy_lag": 100,
    "network.hidden": 4096,
    "network.memory": 4096,
    "ppo.epochs": 1000,
    "intrinsic.count_capacity": 2**30,
    "intrinsic.rnd.hidden": 4096,
    "intrinsic.rnd.outputs": 4096,
    "intrinsic.rnd.target_layers": 16,
    "intrinsic.rnd.predictor_layers": 16,
    "intrinsic.rnd.epochs": 1000,
    "intrinsic.rnd.minibatches": 10_000,
    "intrinsic.icm.hidden": 4096,
    "intrinsic.icm.layers": 16,
    "intrinsic.icm.outputs": 4096,
    "intrinsic.icm.model_hidden": 4096,
    "intrinsic.icm.epochs": 1000,
    "intrinsic.icm.minibatches": 10_000,
    "intrinsic.amigo.batch": 10_000,
    "intrinsic.amigo.threshold": 10**9,
    "intrinsic.amigo.good_batches": 10**9,
    "evaluation.episodes": 100_000,
    "maps.steps": 100_000,
}
"""Far above what is of use, below what no memory could hold; evaluations stay within their own levels."""
LABEL = r"([A-Za-z0-9_=+-][A-Za-z0-9._=+-]{0,99})?"
"""What a label may be: the name of a folder."""
LARGEST_UPDATE = 2**22
"""Steps of all environments in one update, which are held in memory at once."""


def to_yaml(config: TrainConfig, about: Mapping[str, Any]) -> str:
    """The settings in full, below a few words about their origin."""
    return yaml.safe_dump({**about, "config": asdict(config)}, sort_keys=False, allow_unicode=True)


def from_yaml(text: str, source: str = "the settings") -> TrainConfig:
    """Read what `to_yaml` wrote, or a person. A setting that is missing takes its default.

    Raises
    ------
    UsageError : the text is no YAML, or names a setting that does not exist or cannot have this value
    """
    return from_dict(TrainConfig, _content(text, source)["config"], source)


def read_config(folder: Path) -> TrainConfig:
    """The settings of the run in `folder`.

    Raises
    ------
    UsageError : there is no run in `folder`, or its settings cannot be read
    RunError : the file cannot be read
    """
    path = folder / "config.yaml"
    config = from_yaml(_text(folder), str(path))
    _refuse_paths(config, f"{path}: ")
    return config


def read_about(folder: Path) -> dict[str, Any]:
    """What `config.yaml` says of the settings' origin: `version`, `commit`, what the run was `resumed_with`, and its
    `total_steps_before`.

    Raises
    ------
    UsageError, RunError : see `read_config`
    """
    content = _content(_text(folder), str(folder / "config.yaml"))
    return {name: value for name, value in content.items() if name != "config"}


def commits(about: Mapping[str, Any]) -> list[str]:
    """The git commits that a run was made with, first to last; a version of the package where there was none."""
    first = about.get("commit") or f"version {about.get('version', 'unknown')}"
    later = about.get("resumed_with") or []
    return [str(name) for name in (first, *(later if isinstance(later, list) else [later]))]


def totals_before(about: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Where a run was asked for other `total_steps` than before: the steps taken by then, and the total until then.

    What falls over a run fell as if it went on to that total.
    """
    changes = about.get("total_steps_before")
    pairs = changes if isinstance(changes, list) else []
    return [(pair[0], pair[1]) for pair in pairs if isinstance(pair, list) and [type(x) for x in pair] == [int, int]]


def origin() -> str:
    """The commit of this code, else its version."""
    return source_commit() or f"version {bebold.__version__}"


def _text(folder: Path) -> str:
    path = folder / "config.yaml"
    if not path.is_file():
        raise UsageError(f"there is no run in {folder}; give a folder that `bebold train` made")
    return read_text(path)


def _content(text: str, source: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date that is none, too many digits
        raise UsageError(f"{source} is not valid YAML; write it anew or restore it from a backup") from None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise UsageError(f"{source} has no section `config`; it is no settings file of bebold")
    return content


def from_dict(cls: type[T], values: Mapping[str, Any], source: str, prefix: str = "") -> T:
    """Build the dataclass `cls`, and those nested in it, from plain values."""
    hints = get_type_hints(cls)
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    arguments = {}
    for name, value in values.items():
        if name not in known:
            close = get_close_matches(str(name), known, n=3)
            hint = f"did you mean {' or '.join(prefix + c for c in close)}?" if close else "remove it"
            raise UsageError(f"{source} has the unknown setting {prefix}{name}; {hint}")
        kind = hints[name]
        if is_dataclass(kind):
            if not isinstance(value, dict):
                raise UsageError(f"{source}: {prefix}{name} is a group of settings, not {value!r}")
            arguments[name] = from_dict(kind, value, source, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            arguments[name] = _convert(kind, value, f"{source}: {prefix}{name}")
    return cls(**arguments)


def _convert(kind: Any, value: Any, where: str) -> Any:
    if get_origin(kind) in (Union, UnionType):  # with None
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
        if value is None:
            return None
    if get_origin(kind) is Literal:
        if value in get_args(kind):
            return value
        raise UsageError(f"{where} is {value!r}; choose one of {', '.join(map(str, get_args(kind)))}")
    if kind is float and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 5e-4 as a string
        except (TypeError, ValueError, OverflowError):
            pass
    elif type(value) is kind:
        return value
    raise UsageError(f"{where} is {value!r}; it takes a value of type {kind.__name__}")


def validate(config: TrainConfig) -> None:
    """Refuse settings that cannot work, before anything is built or written.

    Raises
    ------
    UsageError : names the setting and the mend
    UnknownTask : there is no such task
    """
    find_task(config.task)
    find_recipe(config.method)
    _refuse_paths(config)
    _refuse_numbers(config)
    _refuse_pairings(config)
    _refuse_sizes(config)
    _refuse_maps(config)
    _refuse_stops(config)


def _refuse_numbers(config: TrainConfig) -> None:
    """Each number by itself."""
    for name, value in flat(asdict(config)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if name in SHARES and not 0 <= value <= 1:
            raise UsageError(f"{name} is {value}; it must lie between 0 and 1")
        if not 0 <= value < float("inf"):  # nor NaN
            raise UsageError(f"{name} is {value}; it must be a number that is not negative")
        if value == 0 and name not in MAY_BE_ZERO:
            raise UsageError(f"{name} is {value}; it must be positive")
        if value > LARGEST.get(name, value):
            raise UsageError(f"{name} is {value:,}; it must be at most {LARGEST[name]:,}")
    if config.seed >= SEEDS:
        raise UsageError(f"seed is {config.seed}; it must be below {SEEDS}: the levels beyond are for evaluation")
    capacity = config.intrinsic.count_capacity
    if capacity < 2 or capacity & (capacity - 1):
        raise UsageError(f"intrinsic.count_capacity is {capacity}; it must be a power of two, such as {2**24}")


def _refuse_pairings(config: TrainConfig) -> None:
    """Networks and keys that cannot read what they are to see."""
    recipe = find_recipe(config.method)
    if config.network.architecture == "amigo" and recipe.guide is None:
        raise UsageError(
            f"network.architecture is amigo, which looks at a goal, and the method {config.method} sets none; "
            "use --method amigo or --network.architecture mlp-gru"
        )
    if config.intrinsic.key == "discretised":
        raise UsageError(
            "intrinsic.key is discretised, which is of vectors, and MiniGrid shows images; "
            "choose contact or observation"
        )
    for group, part in (("rnd", config.intrinsic.rnd), ("icm", config.intrinsic.icm)):
        if part.encoding == "raw" and recipe.reads == group:
            raise UsageError(
                f"intrinsic.{group}.encoding is raw, which is of vectors, and MiniGrid shows images; "
                "choose onehot or codes"
            )
        if part.architecture != "mlp" and part.encoding not in ("codes", "integers", "bytes"):
            raise UsageError(
                f"intrinsic.{group}.architecture is {part.architecture}, which reads codes as numbers, and "
                f"intrinsic.{group}.encoding is {part.encoding}; choose codes, integers or bytes"
            )
    if config.intrinsic.rnd.architecture == "ride" and config.intrinsic.rnd.normalise_target:
        raise UsageError("intrinsic.rnd.normalise_target needs a dense last layer; turn it off with architecture ride")
    if config.intrinsic.rnd.outputs < 2 and config.intrinsic.rnd.normalise_target:
        raise UsageError(
            "intrinsic.rnd.outputs is 1, and centred by intrinsic.rnd.normalise_target that is always 0: give 2 or more"
        )


def _refuse_sizes(config: TrainConfig) -> None:
    """Rollouts that cannot be shared evenly, or held in memory."""
    workers, minibatches = worker_count(config), config.learning.minibatches
    if config.num_envs % (workers * minibatches):
        raise UsageError(
            f"num_envs is {config.num_envs}; it must be a multiple of "
            f"workers x {config.learner}.minibatches = {workers} x {minibatches} = {workers * minibatches}"
        )
    if config.num_envs * config.unroll * (config.policy_lag + 1) > LARGEST_UPDATE:
        lagging = " x (policy_lag + 1)" if config.policy_lag else ""
        raise UsageError(
            f"num_envs x unroll{lagging} is {config.num_envs * config.unroll * (config.policy_lag + 1):,}; all these "
            f"steps are held in memory: lower one until it is at most {LARGEST_UPDATE:,}"
        )


def _refuse_maps(config: TrainConfig) -> None:
    """Maps of no level, or too many."""
    if config.maps.interval > 0 and config.fixed_level is None:
        raise UsageError("maps.interval asks for maps of one level; choose it with fixed_level")
    # The last update may go beyond total_steps, and pass one more multiple of the interval.
    if config.maps.interval > 0 and config.total_steps // config.maps.interval >= MOST_MAPS:
        raise UsageError(
            f"maps.interval is {config.maps.interval:,}; {config.total_steps:,} steps would have more than "
            f"{MOST_MAPS:,} maps: set it to {config.total_steps // MOST_MAPS + 1:,} or more"
        )


def _refuse_stops(config: TrainConfig) -> None:
    """An early end that nothing could bring about."""
    task = find_task(config.task)
    if config.stop_when_solved and config.evaluation.interval == 0:
        raise UsageError("stop_when_solved needs progress evaluations; set evaluation.interval to 250000, say")
    if config.give_up_at and config.evaluation.interval == 0:
        raise UsageError("give_up_at needs progress evaluations; set evaluation.interval to 250000, say")
    if config.stop_when_solved and solved_threshold(task.short or "") is None:
        raise UsageError(
            f"stop_when_solved needs a return to reach, and the paper gives none for {task.name}; "
            "set total_steps instead"
        )


def _refuse_paths(config: TrainConfig, where: str = "") -> None:
    """Folders are named after label and method, and settings may come from strangers."""
    for name, value in (("label", config.label), ("method", config.method)):
        if not re.fullmatch(LABEL, value):
            raise UsageError(f"{where}{name} is '{value}'; it names a folder: use letters, digits and . _ = + -")


FREE = {"task", "label", "preset", "workers", "device", "checkpoint_interval", "give_up_at"}
"""Settings that do not change what is learnt from a step: between no two runs do they matter. `task` is among them
since one task has several names, and `preset` since the settings that came from it are compared themselves."""
FREE_IN_MEANS = FREE | {"seed", "evaluation"}
"""Those in which runs that are averaged may differ."""
FREE_IN_FOLDERS = FREE | {"total_steps", "stop_when_solved"}
"""Those in which a run that a folder holds may differ from the one asked for, which it becomes by going on. If that has
another total, the folder keeps a note."""


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as pairs such as (`ppo.entropy`, 0.001)."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def differences(one: TrainConfig, other: TrainConfig, free: Set[str]) -> list[tuple[str, Any, Any]]:
    """The settings in which two runs differ, and both values; `free` are those that may, groups included.

    What neither of them reads, such as the numbers of ICM where the method is another, makes no difference.
    """
    pairs = zip(flat(asdict(one)), flat(asdict(other)), strict=True)
    idle = tuple(_unread(one) & _unread(other))
    different = ((name, a, b) for (name, a), (_, b) in pairs if a != b and name.split(".")[0] not in free)
    return [(name, a, b) for name, a, b in different if not name.startswith(idle)]


def _unread(config: TrainConfig) -> set[str]:
    """The groups of settings that a run does not read: the other learner's, and those of other novelties."""
    recipe = RECIPES.get(config.method)  # a run may be of a method that is not known here
    unread = {f"intrinsic.{group}." for group in get_args(Group) if recipe and recipe.reads != group}
    return unread | {"ppo." if config.learner == "impala" else "impala."}


def resolve(config: TrainConfig) -> TrainConfig:
    """The settings with what was left open filled in: the number of workers, and what is None with the method's own,
    else the task's own, else the usual.

    Raises
    ------
    UsageError : there is no such task or method
    """
    recipe = find_recipe(config.method)
    own = of_task(find_task(config.task).id) | {"intrinsic.coefficient": recipe.coefficient} | recipe.defaults
    return filled_in(replace(config, workers=worker_count(config)), USUAL | own)


def worker_count(config: TrainConfig, cores: int = 0) -> int:
    """Data-parallel processes: as asked for, else one for a GPU, or at most one a core, sharing the work evenly.

    `cores` is how many there are for this run; 0: all.
    """
    if config.workers:
        return config.workers
    if config.device == "cuda" or (config.device == "auto" and _has_gpu()):
        return 1
    even = (w for w in range(cores or core_count(), 0, -1) if config.num_envs % (w * config.learning.minibatches) == 0)
    return next(even, 1)


@cache
def _has_gpu() -> bool:
    """Whether `auto` will choose CUDA. Where there is no driver for it, PyTorch need not be loaded to know."""
    if not Path("/proc/driver/nvidia").exists() and "torch" not in sys.modules:
        return False
    import torch

    return torch.cuda.is_available()


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def source_commit() -> str | None:
    """The git commit of the checkout this package runs from, `-dirty` if changed since; None elsewhere."""
    package = Path(__file__).resolve().parent
    if not (package.parent.parent / ".git").exists():
        return None
    command = ["git", "-C", str(package), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None
