"""Saved states: what they hold, and that the kernels never get to see a damaged one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bebold.errors import UsageError
from bebold.gridworld import MiniGridVectorEnv
from bebold.gridworld.explorer import Explorer

State = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def envs() -> MiniGridVectorEnv:
    made = MiniGridVectorEnv("KCS3R3", 4)
    made.reset(seed=0)
    return made


def assert_equal(state: State, expected: State) -> None:
    assert state.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(state[name], value)


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(envs: MiniGridVectorEnv) -> None:
    before = envs.get_state()
    others = {"KCS4R3": "from MiniGrid-KeyCorridorS4R3-v0, not from", "KCS3R3": "3 environments, not 4"}
    for task, message in others.items():
        other = MiniGridVectorEnv(task, 3)
        other.reset(seed=1)
        with pytest.raises(UsageError, match=message):
            envs.set_state(other.get_state())
    assert_equal(envs.get_state(), before)


def damaged(name: str, change: Callable[[np.ndarray], object]) -> Callable[[State], State]:
    """A state whose array `name` was changed: in place, or for what `change` returns."""

    def damage(state: State) -> State:
        array = state[name].copy()
        changed = change(array)
        return state | {name: array if changed is None else changed}

    return damage


def put(place: object, value: int) -> Callable[[np.ndarray], None]:
    """Set one number of an array."""
    return lambda array: array.__setitem__(place, value)


def byte(value: int) -> Callable[[np.ndarray], None]:
    """Set the first byte of an array."""
    return lambda array: array.view(np.uint8).reshape(-1).__setitem__(0, value)


EMPTY, WALL, FLOOR, DOOR, KEY, BOX, AGENT, OPAQUE = 1, 2, 3, 4, 5, 7, 10, 1 << 31
HAS_SPARE, SPARE, INCREMENT_LOW = 4, 5, 3
DAMAGES = {
    "an array is missing": lambda state: {name: value for name, value in state.items() if name != "generators"},
    "there is one array more": lambda state: state | {"more": np.zeros(4)},
    "x below the grid": damaged("agent", put((1, 0), -1)),
    "x beyond the grid": damaged("agent", put((1, 0), 7)),
    "y beyond the grid": damaged("agent", put((3, 1), 7)),
    "y far beyond the grid": damaged("agent", put((3, 1), 2**62)),
    "no such direction": damaged("agent", put((0, 2), 4)),
    "a negative direction": damaged("agent", put((0, 2), -1)),
    "a cell of nothing known": damaged("cells", put((0, 3, 3), 0)),
    "a cell of a kind no task has": damaged("cells", put((0, 3, 3), FLOOR)),
    "an agent as a cell": damaged("cells", put((0, 3, 3), AGENT)),
    "a cell of no colour": damaged("cells", put((0, 3, 3), KEY | 6 << 8)),
    "a cell in no state": damaged("cells", put((0, 3, 3), DOOR | 3 << 16 | OPAQUE)),
    "an open door that blocks sight": damaged("cells", put((0, 3, 3), DOOR | OPAQUE)),
    "a wall to see through": damaged("cells", put((0, 3, 3), WALL | 5 << 8)),
    "a box in a box": damaged("cells", put((0, 3, 3), BOX | BOX << 24)),
    "a load that cannot be carried": damaged("carried", put(0, DOOR)),
    "an empty cell as a load": damaged("carried", put(0, EMPTY)),
    "a target that cannot be carried": damaged("target", put(0, DOOR)),
    "a negative time": damaged("elapsed", put(0, -1)),
    "time after the end": damaged("elapsed", put(0, 271)),
    "an episode that goes on at its end": damaged("elapsed", put(0, 270)),
    "a return that is no number": damaged("returns", put(0, float("nan"))),
    "two spare halves": damaged("generators", put((2, HAS_SPARE), 2)),
    "a spare half of more than 32 bits": damaged("generators", put((2, SPARE), 2**32)),
    "an even increment": damaged("generators", put((2, INCREMENT_LOW), 2**63)),
    "started without random numbers": damaged("seeded", put(1, 0)),
    "no truth value in `seeded`": damaged("seeded", byte(2)),
    "no truth value in `ended`": damaged("ended", byte(255)),
    "no truth value in `hits_obstacle`": damaged("hits_obstacle", byte(2)),
    "no truth value in `started`": damaged("started", byte(2)),
    "another task": damaged("task", byte(0)),
    "words for the task": damaged("task", lambda task: np.array("MiniGrid-KeyCorridorS3R3-v0")),
    "too many environments in one array": damaged("carried", lambda array: np.tile(array, 2)),
    "another grid": damaged("cells", lambda cells: cells[:, 1:]),
    "no dimensions": damaged("agent", lambda agent: np.int64(0)),
    "obstacles where there are none": damaged("obstacles", lambda obstacles: np.zeros((4, 2, 2), np.int64)),
    "other numbers": damaged("elapsed", lambda elapsed: elapsed.astype(np.int32)),
    "objects": damaged("elapsed", lambda elapsed: elapsed.astype(object)),
    "a mapping": damaged("agent", lambda agent: {0: agent}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_and_changes_nothing(envs: MiniGridVectorEnv, damage: str) -> None:
    before = envs.get_state()
    with pytest.raises(UsageError) as error:
        envs.set_state(DAMAGES[damage](envs.get_state()))
    assert "\n" not in str(error.value)
    assert_equal(envs.get_state(), before)


@pytest.mark.parametrize("position", [-1, 5, 2**62])
def test_obstacles_must_be_on_the_grid(position: int) -> None:
    balls = MiniGridVectorEnv("MiniGrid-Dynamic-Obstacles-5x5-v0", 2)
    balls.reset(seed=0)
    before = balls.get_state()
    for axis in (0, 1):
        with pytest.raises(UsageError, match="'obstacles'"):
            balls.set_state(damaged("obstacles", put((1, 1, axis), position))(before))
    assert_equal(balls.get_state(), before)


def test_a_state_before_the_first_reset_can_be_restored() -> None:
    envs, again = MiniGridVectorEnv("KCS3R3", 2), MiniGridVectorEnv("KCS3R3", 2)
    envs.seed_generators([5, None])
    again.reset(seed=0)
    again.set_state(envs.get_state())
    with pytest.raises(RuntimeError, match="reset"):
        again.step(np.zeros(2, np.int64))
    assert again.reset()[1]["state_key"][0] == envs.reset()[1]["state_key"][0]


@pytest.mark.parametrize("task", ["OMFull", "MRN6", "MiniGrid-DoorKey-8x8-v0", "MiniGrid-LavaCrossingS9N3-v0"])
def test_no_state_of_a_game_is_taken_for_damaged(task: str) -> None:
    envs = MiniGridVectorEnv(task, 8)
    envs.reset(seed=0)
    explorer = Explorer(8, np.random.default_rng(0))
    for _ in range(150):
        envs.step(explorer.act(envs))
        before = envs.get_state()
        envs.set_state(before)
        assert_equal(envs.get_state(), before)
