"""MiniGrid, exact and fast: a Gymnasium vector environment in numba, equal to Farama's bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bebold.gridworld.tasks import MOST_ROOMS, NAMESPACE, TASKS, Task, UnknownTask, find_task, make_farama, multi_room

if TYPE_CHECKING:
    from bebold.gridworld.vector import MiniGridVectorEnv

__all__ = [
    "TASKS",
    "MiniGridVectorEnv",
    "Task",
    "UnknownTask",
    "find_task",
    "make_farama",
    "multi_room",
    "register",
]


def __getattr__(name: str) -> Any:
    # numba takes a second to import, so it waits until somebody wants an environment.
    if name == "MiniGridVectorEnv":
        from bebold.gridworld.vector import MiniGridVectorEnv

        return MiniGridVectorEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register() -> None:
    """Make `gymnasium.make_vec("bebold/<id or short name>", num_envs=...)` build this engine.

    Gymnasium finds registered ids only, so every MultiRoom that there can be is registered: some 270.
    """
    from gymnasium.envs.registration import EnvSpec, registry

    multi_rooms = [multi_room(rooms, size) for size, most in MOST_ROOMS.items() for rooms in range(1, most + 1)]
    for task in dict.fromkeys([*TASKS, *multi_rooms]):
        for name in filter(None, (task.id, task.short)):
            spec = EnvSpec(
                id=f"{NAMESPACE}{name}",
                vector_entry_point="bebold.gridworld.vector:MiniGridVectorEnv",
                kwargs={"task": task.id},
            )
            # The version is made part of the name: v0 and v1 of ObstructedMaze are two tasks here, and
            # Gymnasium would call v0 outdated and take v1 where the paper's unversioned name is asked for.
            spec.name, spec.version = name, None
            registry[spec.id] = spec
