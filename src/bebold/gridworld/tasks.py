"""The tasks: ids, parameters and step limits of Farama's MiniGrid, and the paper's short names for them."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bebold.errors import UsageError

if TYPE_CHECKING:
    import gymnasium

NAMESPACE = "bebold/"


class UnknownTask(UsageError):
    """No task has this name."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One MiniGrid task.

    `parameters` are the numbers that its level generator needs, named and in that order; `short` is the paper's
    name for it.
    """

    id: str
    short: str | None
    family: str
    parameters: tuple[tuple[str, int], ...]
    max_steps: int
    width: int
    height: int

    @property
    def name(self) -> str:
        """The paper's name for it, or else its id: what folders, tables and messages call it."""
        return self.short or self.id

    def limit(self, max_episode_steps: int) -> int:
        """Steps that an episode can take if it times out after so many, or 0: as the task says."""
        return min(max_episode_steps, self.max_steps) or self.max_steps

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
    return Task(f"MiniGrid-{name}", short, family, tuple(parameters.items()), max_steps, width, height)


MOST_ROOMS = dict(enumerate((29, 26, 22, 19, 17, 15, 14, 13, 12, 11, 11, 10, 10, 9, 9, 8, 8, 8, 7, 7), start=4))
"""How many rooms of up to so many cells a side a MultiRoom can have.

Levels are drawn until one fits on the grid. With one room more, less than one drawing in 100 000 does (of
4 million drawings each), and a reset would take Farama minutes.
"""
_MULTI_ROOM = re.compile(r"MiniGrid-MultiRoom-N([1-9]\d{0,3})-S([1-9]\d{0,3})-v0")


def multi_room(rooms: int, largest_room: int) -> Task:
    """MultiRoom with any number of rooms of any largest size that Farama's 25 x 25 grid has room for.

    Its id is MiniGrid-MultiRoom-N<rooms>-S<largest_room>-v0, but where that means another task upstream (N4-S5
    has six rooms), it is -v1.
    """
    if largest_room not in MOST_ROOMS:
        sizes = f"{min(MOST_ROOMS)} to {max(MOST_ROOMS)}"
        raise UsageError(f"the largest room of a MultiRoom has {sizes} cells a side, not {largest_room}")
    most = MOST_ROOMS[largest_room]
    if not 1 <= rooms <= most:
        raise UsageError(
            f"a MultiRoom with rooms of up to {largest_room} cells a side has 1 to {most} rooms, not {rooms}"
        )
    task = _multi_room(f"MultiRoom-N{rooms}-S{largest_room}-v0", rooms, largest_room)
    known = _BY_NAME.get(task.id, task)
    return known if known.parameters == task.parameters else _BY_NAME[task.id.removesuffix("0") + "1"]


def _multi_room(name: str, rooms: int, largest_room: int, short: str | None = None) -> Task:
    return _task(
        name,
        "multi_room",
        20 * rooms,
        25,
        25,
        short,
        fewest_rooms=rooms,
        most_rooms=rooms,
        largest_room=largest_room,
    )


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


def _obstructed_maze(
    level: str,
    version: int = 0,
    *,
    rooms_visited: int,
    agent_room: tuple[int, int],
    quarters: int,
    key_in_box: bool = True,
    blocked: bool = True,
    short: str | None = None,
) -> Task:
    columns, rows = (3, 3) if quarters else (2, 1)
    room_size = 6
    return _task(
        f"ObstructedMaze-{level}-v{version}",
        "obstructed_maze",
        4 * rooms_visited * room_size**2,
        columns * (room_size - 1) + 1,
        rows * (room_size - 1) + 1,
        f"{short}-v1" if short and version == 1 else short,
        columns=columns,
        rows=rows,
        agent_column=agent_room[0],
        agent_row=agent_room[1],
        quarters=quarters,
        key_in_box=int(key_in_box),
        blocked=int(blocked),
        repaired=version,
    )


def _obstructed_mazes() -> Iterator[Task]:
    two_rooms: dict[str, Any] = {"rooms_visited": 2, "agent_room": (0, 0), "quarters": 0}
    yield _obstructed_maze("1Dl", key_in_box=False, blocked=False, **two_rooms)
    yield _obstructed_maze("1Dlh", blocked=False, **two_rooms)
    yield _obstructed_maze("1Dlhb", **two_rooms)
    two_doors: dict[str, Any] = {"rooms_visited": 4, "agent_room": (2, 1), "quarters": 1}
    yield _obstructed_maze("2Dl", key_in_box=False, blocked=False, **two_doors)
    yield _obstructed_maze("2Dlh", blocked=False, short="OM2Dlh", **two_doors)
    for version in (0, 1):
        yield _obstructed_maze("2Dlhb", version, short="OM2Dlhb", **two_doors)
        yield _obstructed_maze("1Q", version, rooms_visited=5, agent_room=(1, 1), quarters=1, short="OM1Q")
        yield _obstructed_maze("2Q", version, rooms_visited=11, agent_room=(2, 1), quarters=2, short="OM2Q")
        yield _obstructed_maze("Full", version, rooms_visited=25, agent_room=(1, 1), quarters=4, short="OMFull")


def _square(name: str, family: str, size: int, max_steps: int, **parameters: int) -> Task:
    return _task(name, family, max_steps, size, size, None, **parameters)


def _small_tasks() -> Iterator[Task]:
    """The static tasks of the paper's appendix, and Dynamic-Obstacles."""
    for size, start in ((5, ""), (5, "Random-"), (6, ""), (6, "Random-"), (8, ""), (16, "")):
        name = f"{start}{size}x{size}-v0"
        random_start = int(bool(start))
        yield _square(f"Empty-{name}", "empty", size, 4 * size**2, random_start=random_start)
        balls = {5: 2, 6: 3, 8: 4, 16: 8}[size]
        yield _square(
            f"Dynamic-Obstacles-{name}",
            "dynamic_obstacles",
            size,
            4 * size**2,
            random_start=random_start,
            obstacles=balls,
        )
    yield _square("FourRooms-v0", "four_rooms", 19, 100)
    for size in (5, 6, 8, 16):
        yield _square(f"DoorKey-{size}x{size}-v0", "door_key", size, 10 * size**2)
    for size in (6, 8):
        yield _task(f"RedBlueDoors-{size}x{size}-v0", "red_blue_doors", 20 * size**2, 2 * size, size)
    for size in (5, 6, 7):
        yield _square(f"LavaGapS{size}-v0", "lava_gap", size, 4 * size**2)
    for kind, lava in (("Lava", 1), ("Simple", 0)):
        for size, rivers in ((9, 1), (9, 2), (9, 3), (11, 5)):
            name = f"{kind}CrossingS{size}N{rivers}-v0"
            yield _square(name, "crossing", size, 4 * size**2, rivers=rivers, lava=lava)


def _all_tasks() -> Iterator[Task]:
    yield _multi_room("MultiRoom-N2-S4-v0", 2, 4)
    yield _multi_room("MultiRoom-N4-S5-v0", 6, 5)  # six rooms: upstream kept the mistake for compatibility
    yield _multi_room("MultiRoom-N4-S5-v1", 4, 5)
    yield _multi_room("MultiRoom-N6-v0", 6, 10, "MRN6")
    yield _multi_room("MultiRoom-N7-S8-v0", 7, 8, "MRN7S8")
    yield _multi_room("MultiRoom-N12-S10-v0", 12, 10, "MRN12S10")
    yield _key_corridor(3, 1)
    yield _key_corridor(3, 2)
    for size in (3, 4, 5, 6):
        yield _key_corridor(size, 3, short=f"KCS{size}R3")
    yield from _obstructed_mazes()
    yield from _small_tasks()


TASKS: tuple[Task, ...] = tuple(_all_tasks())
_BY_NAME = {task.id: task for task in TASKS} | {task.short: task for task in TASKS if task.short}


def find_task(name: str | Task) -> Task:
    """The task with a Farama id or one of the paper's short names, with or without `bebold/` before it.

    MiniGrid-MultiRoom-N<rooms>-S<largest room>-v0 is an id for any two numbers that `multi_room` accepts.
    """
    if isinstance(name, Task):
        return name
    bare = name.removeprefix(NAMESPACE)
    if bare in _BY_NAME:
        return _BY_NAME[bare]
    if numbers := _MULTI_ROOM.fullmatch(bare):
        return multi_room(*map(int, numbers.groups()))
    by_lower_case = {known.lower(): known for known in _BY_NAME}
    close = difflib.get_close_matches(bare.lower(), by_lower_case, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(by_lower_case[match] for match in close)}? " if close else ""
    raise UnknownTask(f"unknown task {name!r}: {hint}`bebold tasks` lists the MiniGrid tasks there are")


def has_repaired(name: str | Task) -> bool:
    """Whether the task is an ObstructedMaze with a repaired -v1 id beside its own."""
    task = find_task(name)
    return task.family == "obstructed_maze" and _repaired(task) not in (task, None)


def _repaired(task: Task) -> Task | None:
    return _BY_NAME.get(task.id[:-1] + "1")


def repaired_task(name: str | Task) -> Task:
    """The -v1 id of an ObstructedMaze, in which no ball takes the place of a box that holds a key.

    Raises
    ------
    UsageError : Farama has none for this task
    """
    task = find_task(name)
    repaired = _repaired(task)
    if has_repaired(task) and repaired is not None:
        return repaired
    if not dict(task.parameters).get("blocked"):
        why = "no ball blocks a door there"
    else:
        why = "it is the repaired one" if repaired == task else "Farama has no -v1 of it"
    raise UsageError(f"there are no repaired levels of {task.name}: {why}; judge it without --repaired")


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
        raise UnknownTask(f"the installed minigrid does not register {task.id}")
    numbers = dict(task.parameters)
    arguments = {
        "minNumRooms": numbers["fewest_rooms"],
        "maxNumRooms": numbers["most_rooms"],
        "maxRoomSize": numbers["largest_room"],
    }
    return EnvSpec(id=task.id, entry_point="minigrid.envs:MultiRoomEnv", kwargs=arguments)
