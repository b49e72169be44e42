"""The tasks: ids, parameters and step limits of Farama's MiniGrid, and the paper's short names for them."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium

NAMESPACE = "bebold/"


class UnknownTask(ValueError):
    """No task has this name."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One MiniGrid task.

    `parameters` are the numbers its level generator needs, in that order; `short` is the paper's name for it.
    """

    id: str
    short: str | None
    family: str
    parameters: Mapping[str, int]
    max_steps: int
    width: int
    height: int

    @property
    def see_through_walls(self) -> bool:
        """Whether the agent sees through walls, as in Farama's Empty and Dynamic-Obstacles."""
        return self.family in ("empty", "dynamic_obstacles")

    @property
    def num_actions(self) -> int:
        """Seven, or in Dynamic-Obstacles the three that move the agent."""
        return 3 if self.family == "dynamic_obstacles" else 7


def _task(
    name: str,
    family: str,
    max_steps: int,
    width: int,
    height: int,
    short: str | None = None,
    **parameters: int,
) -> Task:
    return Task(f"MiniGrid-{name}", short, family, MappingProxyType(parameters), max_steps, width, height)


def multi_room(rooms: int, largest_room: int, *, id: str | None = None, short: str | None = None) -> Task:
    """MultiRoom with any number of rooms of any largest size, on Farama's 25 x 25 grid."""
    if rooms < 1 or not 4 <= largest_room <= 23:
        raise ValueError(
            f"MultiRoom needs at least 1 room and a largest room between 4 and 23, not {rooms} and {largest_room}."
        )
    name = id or f"MultiRoom-N{rooms}-S{largest_room}-v0"
    parameters = {"fewest_rooms": rooms, "most_rooms": rooms, "largest_room": largest_room}
    return _task(name, "multi_room", 20 * rooms, 25, 25, short, **parameters)


def _key_corridor(size: int, rows: int, short: str | None = None) -> Task:
    pitch = size - 1
    return _task(
        f"KeyCorridorS{size}R{rows}-v0",
        "key_corridor",
        30 * size**2,
        3 * pitch + 1,
        rows * pitch + 1,
        short,
        room_size=size,
        rows=rows,
    )


def _all_tasks() -> Iterator[Task]:
    yield multi_room(2, 4)
    yield multi_room(6, 5, id="MultiRoom-N4-S5-v0")  # six rooms: upstream kept the mistake for compatibility
    yield multi_room(4, 5, id="MultiRoom-N4-S5-v1")
    yield multi_room(6, 10, id="MultiRoom-N6-v0", short="MRN6")
    yield multi_room(7, 8, short="MRN7S8")
    yield multi_room(12, 10, short="MRN12S10")
    yield _key_corridor(3, 1)
    yield _key_corridor(3, 2)
    for size in (3, 4, 5, 6):
        yield _key_corridor(size, 3, short=f"KCS{size}R3")


TASKS: tuple[Task, ...] = tuple(_all_tasks())
_BY_NAME = {task.id: task for task in TASKS} | {task.short: task for task in TASKS if task.short}


def find_task(name: str | Task) -> Task:
    """The task with a Farama id or one of the paper's short names, with or without `bebold/` before it."""
    if isinstance(name, Task):
        return name
    bare = name.removeprefix(NAMESPACE)
    if bare in _BY_NAME:
        return _BY_NAME[bare]
    by_lower_case = {known.lower(): known for known in _BY_NAME}
    close = difflib.get_close_matches(bare.lower(), by_lower_case, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(by_lower_case[match] for match in close)}? " if close else ""
    raise UnknownTask(f"Unknown task {name!r}: {hint}`bebold tasks` lists all of them.")


def make_farama(task: str | Task, **kwargs: Any) -> gymnasium.Env:
    """The same environment built from Farama's own classes; `kwargs` (such as `render_mode`) go to it."""
    task = find_task(task)
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import gymnasium
    import minigrid  # noqa: F401 (registers its ids)

    # Making from a spec rather than an id, Gymnasium does not warn that a later version exists.
    spec = gymnasium.registry.get(task.id) or _unregistered_spec(task)
    return gymnasium.make(spec, disable_env_checker=True, **kwargs)


def _unregistered_spec(task: Task) -> Any:
    from gymnasium.envs.registration import EnvSpec

    if task.family != "multi_room":
        raise UnknownTask(f"The installed minigrid does not register {task.id}.")
    arguments = {
        "minNumRooms": task.parameters["fewest_rooms"],
        "maxNumRooms": task.parameters["most_rooms"],
        "maxRoomSize": task.parameters["largest_room"],
    }
    return EnvSpec(id=task.id, entry_point="minigrid.envs:MultiRoomEnv", kwargs=arguments)
