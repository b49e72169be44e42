"""The next moves of a player who sees everything: through doors, past what is in the way, with the keys it takes.

It is no optimal player. It is there to reach the ends of hard levels where two engines are compared.
"""

from __future__ import annotations

import numpy as np

from bebold.gridworld.cells import (
    BALL,
    BOX,
    DIRECTION_X,
    DIRECTION_Y,
    DOOR,
    EMPTY_CELL,
    GOAL,
    KEY,
    LOCKED,
    OPAQUE_BIT,
    STEP_X,
    STEP_Y,
)
from bebold.gridworld.kernels import DROP, FORWARD, PICK_UP, TOGGLE, TURN_LEFT, TURN_RIGHT
from bebold.jit import jit

Place = tuple[int, int]
Agent = tuple[int, int, int]  # x, y, direction

# What a cell costs on the way: 1 if it is free, else about as many steps as its clearing may take.
FREE, CLOSED_DOOR, MOVABLE, LOCKED_DOOR, NO_WAY = 1, 3, 20, 100, 1 << 30
UNSEEN, START = -1, 4


def next_moves(cells: np.ndarray, agent: Agent, load: int, target: int) -> list[int]:
    """Moves towards taking the object `target`, or without one (0) entering the goal; none if that is out of reach.

    `cells` uint32 [W, H] are a grid's codes, `load` is the code of what is carried (0: nothing).
    """
    wanted = _find(cells, cells == target if target else cells & 0xFF == GOAL)
    return [] if wanted is None else _towards(cells, agent, load, wanted, wanted, set())


def moves_along(way: list[int], facing: int) -> list[int]:
    """Turns and steps that follow a list of directions."""
    moves: list[int] = []
    for step in way:
        moves += [(), (TURN_RIGHT,), (TURN_RIGHT, TURN_RIGHT), (TURN_LEFT,)][(step - facing) % 4]
        moves.append(FORWARD)
        facing = step
    return moves


def reachable(cells: np.ndarray, x: int, y: int) -> tuple[np.ndarray, np.ndarray]:
    """Every place that can be walked to, int64 [N, 2], nearest first, and the last direction there, [W, H]."""
    came = np.full(cells.shape, UNSEEN, dtype=np.int64)
    places = np.empty((cells.size, 2), dtype=np.int64)
    return places[: _flood(cells, x, y, came, places)], came


def way_back(came: np.ndarray, place: Place) -> list[int]:
    """The directions that lead from the start to a place."""
    way = []
    while (direction := int(came[place])) != START:
        way.append(direction)
        place = (place[0] - STEP_X[direction], place[1] - STEP_Y[direction])
    return way[::-1]


def _towards(
    cells: np.ndarray, agent: Agent, load: int, goal: Place, last_goal: Place, fetched: set[Place]
) -> list[int]:
    """Moves towards using what is at `goal`, which is needed for `last_goal`."""
    came, cost = _cheapest_ways(cells, agent, load)
    if cost[goal] >= NO_WAY or goal in fetched:
        return []
    way, thing = _up_to_the_first_thing(cells, agent, way_back(came, goal))
    code = int(cells[thing])
    kind = code & 0xFF
    use_it = moves_along(way, agent[2])[:-1]
    if kind == GOAL:
        return [*use_it, FORWARD]
    if kind == DOOR and (code >> 16 & 0xFF != LOCKED or load == KEY | code & 0xFF00):
        return [*use_it, TOGGLE]
    if kind == DOOR:
        key = _find_key(cells, code >> 8 & 0xFF)
        if key is not None:
            return _towards(cells, agent, load, key, last_goal, fetched | {goal})
        return _put_aside(cells, agent, load, (last_goal,)) if load else []  # it may be in the box in hand
    if kind == BOX and thing != last_goal:
        return [*use_it, TOGGLE]
    return _put_aside(cells, agent, load, (goal, last_goal)) if load else [*use_it, PICK_UP]


def _put_aside(cells: np.ndarray, agent: Agent, load: int, goals: tuple[Place, ...]) -> list[int]:
    """Drop the load where it is in nobody's way, if there is such a place, or else anywhere."""
    places, came = reachable(cells, agent[0], agent[1])
    spots = [
        (place, direction, spot)
        for place in map(tuple, places.tolist())
        for direction in range(4)
        if cells[spot := (place[0] + STEP_X[direction], place[1] + STEP_Y[direction])] == EMPTY_CELL
        and spot != agent[:2]
    ]
    # Not on a threshold, and so that what is wanted is no farther than before.
    tests = (
        lambda place, spot: (
            not _is_beside_a_door(cells, spot) and _leaves_the_way_free(cells, place, spot, load, goals)
        ),
        lambda place, spot: _leaves_the_way_free(cells, place, spot, load, goals),
        lambda place, spot: True,
    )
    for is_good in tests:
        for place, direction, spot in spots:
            if is_good(place, spot):
                return [*moves_along([*way_back(came, place), direction], agent[2])[:-1], DROP]
    return []


def _leaves_the_way_free(cells: np.ndarray, place: Place, spot: Place, load: int, goals: tuple[Place, ...]) -> bool:
    filled = cells.copy()
    filled[spot] = load
    now, then = (_cheapest_ways(grid, (*place, 0), 0, aside=load)[1] for grid in (cells, filled))
    return all(then[goal] <= now[goal] for goal in goals)


def _is_beside_a_door(cells: np.ndarray, place: Place) -> bool:
    return any(int(cells[place[0] + STEP_X[d], place[1] + STEP_Y[d]]) & 0xFF == DOOR for d in range(4))


def _find(cells: np.ndarray, mask: np.ndarray) -> Place | None:
    """The first place where `mask` holds."""
    at = np.flatnonzero(mask)
    return None if len(at) == 0 else divmod(int(at[0]), cells.shape[1])


def _find_key(cells: np.ndarray, color: int) -> Place | None:
    """Where a key of a colour lies, in the open or in a box."""
    key = _find(cells, cells == KEY | color << 8)
    return key or _find(cells, (cells & 0xFF == BOX) & (cells >> 24 & 0xF == KEY) & (cells >> 28 & 0x7 == color))


def _up_to_the_first_thing(cells: np.ndarray, agent: Agent, way: list[int]) -> tuple[list[int], Place]:
    """The part of a way that ends at the first cell that is not free, and that cell."""
    x, y, _ = agent
    for k, direction in enumerate(way):
        x, y = x + STEP_X[direction], y + STEP_Y[direction]
        if not _is_free(int(cells[x, y])):
            return way[: k + 1], (x, y)
    return way, (x, y)


def _cheapest_ways(cells: np.ndarray, agent: Agent, load: int, aside: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """From the agent to every cell: the last direction there, and the cost, both [W, H].

    A door whose key is neither on the grid nor in hand nor put `aside` is no way.
    """
    came = np.full(cells.shape, UNSEEN, dtype=np.int64)
    cost = np.full(cells.shape, NO_WAY, dtype=np.int64)
    _spread(cells, agent[0], agent[1], load, aside, came, cost)
    return came, cost


@jit
def _is_free(code):
    return code == EMPTY_CELL or (code & 0xFF == DOOR and code & OPAQUE_BIT == 0)


@jit
def _flood(cells, x, y, came, places):
    came[x, y] = START
    places[0] = (x, y)
    count = 1
    k = 0
    while k < count:
        for direction in range(4):
            x, y = places[k, 0] + DIRECTION_X[direction], places[k, 1] + DIRECTION_Y[direction]
            inside = 0 <= x < cells.shape[0] and 0 <= y < cells.shape[1]
            if inside and came[x, y] == UNSEEN and _is_free(np.int64(cells[x, y])):
                came[x, y] = direction
                places[count] = (x, y)
                count += 1
        k += 1
    return count


@jit
def _key_color(code):
    """One bit: the colour of a key, in a box or not; 0 for anything else."""
    if code & 0xFF == KEY:
        return 1 << (code >> 8 & 0xFF)
    return 1 << (code >> 28 & 0x7) if code & 0xFF == BOX and code >> 24 & 0xF == KEY else 0


@jit
def _price(code, load, keys):
    """What it costs to get past a cell, with keys of the colours `keys` somewhere on the grid."""
    kind = code & 0xFF
    if _is_free(code):
        return FREE
    if kind == DOOR:
        if code >> 16 & 0xFF != LOCKED or load == KEY | code & 0xFF00:
            return CLOSED_DOOR
        return LOCKED_DOOR if keys >> (code >> 8 & 0xFF) & 1 else NO_WAY
    return MOVABLE if kind in (KEY, BALL, BOX) else NO_WAY


@jit
def _spread(cells, x, y, load, aside, came, cost):
    """Lower costs until none falls any more. A goal can be entered, but not passed."""
    came[x, y] = START
    cost[x, y] = 0
    keys = _key_color(load) | _key_color(aside)
    for k in range(cells.size):
        keys |= _key_color(np.int64(cells[k // cells.shape[1], k % cells.shape[1]]))
    changed = True
    while changed:
        changed = False
        for x in range(cells.shape[0]):
            for y in range(cells.shape[1]):
                if cost[x, y] >= NO_WAY or np.int64(cells[x, y]) & 0xFF == GOAL:
                    continue
                for direction in range(4):
                    next_x, next_y = x + DIRECTION_X[direction], y + DIRECTION_Y[direction]
                    if not (0 <= next_x < cells.shape[0] and 0 <= next_y < cells.shape[1]):
                        continue
                    code = np.int64(cells[next_x, next_y])
                    price = FREE if code & 0xFF == GOAL else _price(code, load, keys)
                    if price < NO_WAY and cost[x, y] + price < cost[next_x, next_y]:
                        cost[next_x, next_y] = cost[x, y] + price
                        came[next_x, next_y] = direction
                        changed = True
