"""BeBold (NovelD) and its relatives: exploration under sparse rewards, on an exact and fast MiniGrid.

Importing this package registers the environments with Gymnasium and loads nothing heavy; the names below are
loaded at first use.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from bebold.gridworld import register as _register

__version__ = "0.1.0"

_HOME = {
    "TrainConfig": "config",
    "IntrinsicConfig": "config",
    "PPOConfig": "config",
    "NetworkConfig": "config",
    "RNDConfig": "config",
    "EvaluationConfig": "config",
    "Rollout": "rollout",
    "make_envs": "envs",
    "build_intrinsic": "methods.recipes",
    "train": "train",
    "resume": "train",
    "evaluate": "evaluate",
    "load_policy": "evaluate",
}
__all__ = ["__version__", *_HOME]

_register()


class _Package(ModuleType):
    """Keeps `bebold.train` and `bebold.evaluate` functions when the files of these names are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"bebold.{_HOME[name]}"), name)
    raise AttributeError(f"module 'bebold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
