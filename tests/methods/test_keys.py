"""Keys tell apart what they should and nothing else."""

import numpy as np
import pytest

from bebold.errors import UsageError
from bebold.gridworld.tasks import make_farama
from bebold.methods.keys import KEYS, make_key

RNG = np.random.default_rng(0)
VIEWS = RNG.integers(0, 11, (500, 7, 7, 3), dtype=np.uint8)


def test_observation_key_equals_where_views_equal_and_differs_at_a_single_cell():
    key = make_key("observation")
    changed = VIEWS.copy()
    rows = np.arange(500)
    changed[rows, rows % 7, rows // 7 % 7, rows % 3] ^= 1
    keys, same, other = (key({"image": x}, {}) for x in (VIEWS, VIEWS.copy(), changed))
    assert keys.dtype == np.uint64
    assert keys.shape == (500,)
    assert (keys == same).all()
    assert len(np.unique(np.r_[keys, other])) == 1000


def test_observation_key_does_not_depend_on_the_memory_layout():
    key = make_key("observation")
    strided = np.repeat(VIEWS, 2, axis=1)[:, ::2]
    assert (key({"image": strided}, {}) == key({"image": VIEWS}, {})).all()


def test_observation_key_of_numbers_takes_both_zeros_for_one():
    key = make_key("observation")
    vectors = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.5]], np.float32)
    keys = key({"vector": vectors}, {})
    assert keys[0] == keys[1] != keys[2]


def test_full_state_key_is_the_environments_own():
    states = np.array([3, 2**63 + 5], np.uint64)
    assert (make_key("full_state")({}, {"state_key": states}) == states).all()
    assert (make_key("full_state")({}, {"state_key": states.view(np.int64)}) == states).all()


def test_position_key_counts_cells_whatever_the_dtype():
    xy = np.stack(np.meshgrid(np.arange(25), np.arange(25)), -1).reshape(-1, 2)
    keys = make_key("position")({}, {"agent_pos": xy})
    assert len(np.unique(keys)) == 625
    assert (keys == make_key("position")({}, {"agent_pos": xy.astype(np.int32)})).all()


def walk(steps=3000):
    """Farama's environment, what it shows, and (type, colour) of the load, at each step of a random walk."""
    env = make_farama("MiniGrid-ObstructedMaze-1Dlhb-v0").unwrapped
    actions = np.random.default_rng(1).choice(6, p=[0.2, 0.2, 0.25, 0.15, 0.1, 0.1], size=steps)
    obs, _ = env.reset(seed=0)
    for action in actions:
        yield env, obs, env.carrying and (env.carrying.type, env.carrying.color)
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            obs, _ = env.reset()


def test_pose_key_is_what_faramas_environment_says_of_its_agent():
    key, poses, keys = make_key("pose"), [], []
    for env, obs, held in walk():
        seen = {"image": obs["image"][None], "direction": np.array([obs["direction"]])}
        keys.append(int(key(seen, {"agent_pos": np.array([env.agent_pos])})[0]))
        poses.append((*map(int, env.agent_pos), int(env.agent_dir), held))
    assert len({pose[3] for pose in poses}) >= 3  # nothing, a ball, a box or the key
    assert len(set(poses)) == len(set(keys)) == len(set(zip(poses, keys, strict=True)))


def test_contact_key_is_what_faramas_environment_says_of_the_load_and_the_cell_ahead():
    key, contacts, keys = make_key("contact"), [], []
    for env, obs, held in walk():
        keys.append(int(key({"image": obs["image"][None]}, {})[0]))
        faced = env.grid.get(*env.front_pos)
        contacts.append((held, faced and faced.encode()))
    assert len({held for held, _ in contacts}) >= 3  # nothing, a ball, a box or the key
    assert len({faced for _, faced in contacts}) >= 5
    assert len(set(contacts)) == len(set(keys)) == len(set(zip(contacts, keys, strict=True)))


def test_there_are_no_contacts_in_other_images():
    with pytest.raises(UsageError, match="this image is 84 x 84 x 3; choose the key observation"):
        make_key("contact")({"image": np.zeros((2, 84, 84, 3), np.uint8)}, {})


def test_discretised_key_is_the_cell_of_a_grid_through_zero():
    key = make_key("discretised", bin=0.5)
    vectors = np.array([[0.1, -0.1], [0.4, -0.4], [0.6, -0.1], [0.1, 0.1]])
    keys = key({"vector": vectors}, {})
    assert keys[0] == keys[1]
    assert len(np.unique(keys)) == 3


@pytest.mark.parametrize("name", KEYS)
def test_a_key_without_its_ingredient_says_what_is_missing(name):
    with pytest.raises(UsageError, match=f"'{name}' needs .* choose another key"):
        make_key(name)({"sound": np.zeros((2, 1))}, {"smell": np.zeros((2, 1))})


def test_unknown_keys_and_bins_are_refused():
    with pytest.raises(UsageError, match="choose one of observation"):
        make_key("sound")
    for bin_width in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="positive"):
            make_key("discretised", bin=bin_width)
