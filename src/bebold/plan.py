"""Files that list many runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from bebold.config import TrainConfig
from bebold.errors import UsageError
from bebold.presets import PRESETS, preset
from bebold.settings import flat, from_dict, resolve, validate


def read_sweep(path: Path) -> list[TrainConfig]:
    """The runs that a file asks for.

    A YAML file with a list `runs` of settings as in a run's config.yaml, and optionally `defaults` for all of them. A
    list in place of a value stands for one run with each: every combination where there are several. In a label,
    `{name}` is replaced by the setting of that name.

    Raises
    ------
    UsageError : the file cannot be read, or asks for what there is not
    """
    if not path.exists():
        raise UsageError(f"there is no file {path}; docs/sweeps.md says what it is to hold")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{path} is no sweep that can be read ({reason}); see docs/sweeps.md") from None
    if not isinstance(content, dict) or not isinstance(content.get("runs"), list) or not content["runs"]:
        raise UsageError(f"{path} has no list `runs`; see docs/sweeps.md")
    unknown = set(content) - {"defaults", "runs"}
    if unknown:
        raise UsageError(f"{path} has {', '.join(map(repr, unknown))} beside `defaults` and `runs`; remove it")
    defaults = content.get("defaults") or {}
    configs = []
    for number, entry in enumerate(content["runs"], start=1):
        source = f"{path}, run {number}"
        if not isinstance(entry, dict) or not isinstance(defaults, dict):
            raise UsageError(f"{source}: settings have names, such as task: KCS3R3")
        try:
            combinations = list(_combinations(_merge(defaults, entry)))
        except RecursionError:
            raise UsageError(f"{source} contains itself; write its settings out") from None
        if not combinations:
            raise UsageError(f"{source} has an empty list, and so asks for no run; give it a value")
        for values in combinations:
            config = from_dict(TrainConfig, _merge(_base(values, source), values), source)
            try:
                known = resolve(config)
                config = replace(config, label=_fill_in(config.label, known))
                validate(config)
            except UsageError as error:
                raise UsageError(f"{source}: {error}") from None
            configs.append(config)
    return configs


def _base(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The settings of the preset that these values name."""
    names = {name: value for name in ("preset", "method", "task") if isinstance(value := values.get(name), str)}
    if names.get("preset", "fast") not in PRESETS:
        return {}  # it is refused with the others
    try:
        name: Any = names.pop("preset", "fast")
        return asdict(preset(name, **names))
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, those in `above` first."""
    merged = dict(below)
    for name, value in above.items():
        nested = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], value) if nested else value
    return merged


def _combinations(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every choice of one element of each list, the last list's changing fastest."""
    choices = []
    for name, value in values.items():
        if isinstance(value, dict):
            choices.append([(name, nested) for nested in _combinations(value)])
        else:
            choices.append([(name, one) for one in (value if isinstance(value, list) else [value])])
    return (dict(chosen) for chosen in itertools.product(*choices))


def _fill_in(label: str, config: TrainConfig) -> str:
    """The label with `{ppo.entropy}` and the like replaced."""
    for name, value in flat(asdict(config)):
        label = label.replace("{" + name + "}", f"{value:g}" if isinstance(value, float) else str(value))
    if "{" in label:
        raise UsageError(f"the label {label} names a setting that there is not")
    return label
