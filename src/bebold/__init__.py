"""BeBold (NovelD) and its relatives: exploration under sparse rewards, on an exact and fast MiniGrid.

Importing this package registers the environments with Gymnasium and loads nothing heavy; the names below are
loaded at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bebold.gridworld import register as _register

if TYPE_CHECKING:
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
    from bebold.envs import make_envs
    from bebold.evaluation import evaluate, load_policy
    from bebold.methods.build import build_intrinsic
    from bebold.presets import preset
    from bebold.rollout import Rollout
    from bebold.training import resume, train

__version__ = "0.1.0"

_HOME = {
    "TrainConfig": "config",
    "IntrinsicConfig": "config",
    "PPOConfig": "config",
    "IMPALAConfig": "config",
    "ICMConfig": "config",
    "NetworkConfig": "config",
    "RNDConfig": "config",
    "AMIGoConfig": "config",
    "EvaluationConfig": "config",
    "MapsConfig": "config",
    "Rollout": "rollout",
    "preset": "presets",
    "make_envs": "envs",
    "build_intrinsic": "methods.build",
    "train": "training",
    "resume": "training",
    "evaluate": "evaluation",
    "load_policy": "evaluation",
}
__all__ = [
    "AMIGoConfig",
    "EvaluationConfig",
    "ICMConfig",
    "IMPALAConfig",
    "IntrinsicConfig",
    "MapsConfig",
    "NetworkConfig",
    "PPOConfig",
    "RNDConfig",
    "Rollout",
    "TrainConfig",
    "__version__",
    "build_intrinsic",
    "evaluate",
    "load_policy",
    "make_envs",
    "preset",
    "resume",
    "train",
]

_register()


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"bebold.{_HOME[name]}"), name)
    raise AttributeError(f"module 'bebold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
