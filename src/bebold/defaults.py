"""What settings that are left open, None, become: the usual, or a task's own; a method's own are in its recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

Settings = TypeVar("Settings")
T = TypeVar("T")

USUAL: dict[str, Any] = {
    "staggered": False,
    "network.architecture": "mlp-gru",
    "ppo.entropy": 5e-3,
    "ppo.huber_delta": 1.0,
    "intrinsic.icm.epochs": 1,
}
"""Where neither the method nor the task has its own."""
OF_TASKS: dict[str, dict[str, Any]] = {
    "MiniGrid-ObstructedMaze": {"ppo.huber_delta": 3.0},
    "MiniGrid-LavaGap": {"ppo.entropy": 0.05},
    "MiniGrid-LavaCrossing": {"ppo.entropy": 0.02},
}
"""Those of tasks whose ids begin so. Where the gap in the lava is in the agent's way it leads straight ahead, and
elsewhere nothing is lost by dying: with 5e-3 many policies go that way for ever (docs/research-log.md)."""


def of_task(task: str) -> dict[str, Any]:
    """What the task with this id has of its own."""
    return {name: value for start, own in OF_TASKS.items() if task.startswith(start) for name, value in own.items()}


def filled_in(config: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with these values where they are None; names are such as `ppo.huber_delta`."""
    for name, value in values.items():
        first, _, rest = name.partition(".")
        present = getattr(config, first)
        if rest:
            value = filled_in(present, {rest: value})
        elif present is not None:
            value = present
        config = replace(config, **{first: value})  # type: ignore[type-var]
    return config


def or_usual(value: T | None, name: str) -> T:
    """The value of the setting of this name, or the usual one if it is None."""
    return USUAL[name] if value is None else value
