"""The vector environment's own promises: seeds, resets, states, keys, errors, registration."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList

import bebold  # noqa: F401 (registers the ids)
from bebold.gridworld import MiniGridVectorEnv, make_farama
from bebold.gridworld.explorer import Explorer

FORWARD, TURN_RIGHT, DONE = 2, 1, 6


def assert_equal(ours, theirs) -> None:
    """Equality of nested dicts and tuples of arrays."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert_equal(ours[name], theirs[name])
    elif isinstance(ours, tuple):
        for mine, other in zip(ours, theirs, strict=True):
            assert_equal(mine, other)
    else:
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def random_actions(steps: int, envs: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 7, size=(steps, envs))


@pytest.mark.parametrize("id", ["bebold/MiniGrid-KeyCorridorS4R3-v0", "bebold/KCS4R3"])
def test_gymnasium_makes_it(id: str) -> None:
    envs = gymnasium.make_vec(id, num_envs=256)
    assert isinstance(envs, MiniGridVectorEnv)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    observation, info = envs.reset(seed=0)
    assert observation in envs.observation_space
    assert info["state_key"].dtype == np.uint64
    envs.action_space.seed(0)
    observation, reward, *_ = envs.step(envs.action_space.sample())
    assert observation in envs.observation_space
    assert reward.dtype == np.float64


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_of_a_task_are_made_without_a_warning(version: int) -> None:
    for name in (f"MiniGrid-ObstructedMaze-2Dlhb-v{version}", ("OM2Dlhb", "OM2Dlhb-v1")[version]):
        envs = gymnasium.make_vec(f"bebold/{name}", num_envs=2, full_grid=True)
        assert envs.task.id == f"MiniGrid-ObstructedMaze-2Dlhb-v{version}"
        assert envs.reset(seed=1)[0] in envs.observation_space


def test_gymnasiums_wrappers_accept_it() -> None:
    envs = DictInfoToList(MiniGridVectorEnv("MiniGrid-Empty-5x5-v0", 2))
    envs.reset(seed=0)
    for action in (FORWARD, FORWARD, TURN_RIGHT, FORWARD, FORWARD):
        *_, infos = envs.step(np.array([action, DONE]))
    assert infos[0]["episode"]["l"] == 5
    assert "episode" not in infos[1]
    assert infos[1]["elapsed_steps"] == 5


def test_streams_go_on_without_a_seed() -> None:
    envs = MiniGridVectorEnv("KCS3R3", 3)
    for seed in (40, None, None, [9, None, 2], None):
        observation, _ = envs.reset(seed=seed)
        if seed == 40:
            theirs = [make_farama("KCS3R3").unwrapped for _ in range(3)]
        seeds = [40, 41, 42] if seed == 40 else seed or [None] * 3
        expected = [env.reset(seed=one)[0]["image"] for env, one in zip(theirs, seeds, strict=True)]
        np.testing.assert_array_equal(observation["image"], expected)


def test_never_seeded_environments_differ() -> None:
    keys = [MiniGridVectorEnv("KCS6R3", 8).reset()[1]["state_key"] for _ in range(2)]
    assert len(set(np.concatenate(keys).tolist())) == 16


def test_reset_mask_leaves_the_others_alone() -> None:
    envs, twin = MiniGridVectorEnv("MRN6", 4), MiniGridVectorEnv("MRN6", 4)
    envs.reset(seed=0)
    twin.reset(seed=0)
    actions = random_actions(20, 4)
    for action in actions[:10]:
        envs.step(action)
        twin.step(action)
    mask = np.array([True, False, False, True])
    observation, info = envs.reset(options={"reset_mask": mask})
    assert info["elapsed_steps"].tolist() == [0, 10, 10, 0]
    continued, _ = twin.observe()
    np.testing.assert_array_equal(observation["image"][~mask], continued["image"][~mask])
    fresh, _ = twin.reset()
    np.testing.assert_array_equal(observation["image"][mask], fresh["image"][mask])


def test_reset_mask_cancels_the_automatic_reset() -> None:
    envs = MiniGridVectorEnv("MiniGrid-Dynamic-Obstacles-5x5-v0", 2)
    envs.reset(seed=0)
    while not envs.step(np.array([FORWARD, TURN_RIGHT]))[2][0]:
        pass
    envs.reset(options={"reset_mask": np.array([True, False])})
    *_, info = envs.step(np.array([TURN_RIGHT, TURN_RIGHT]))
    assert info["elapsed_steps"][0] == 1


def test_first_episodes_can_begin_late() -> None:
    envs, twin = MiniGridVectorEnv("MRN6", 3), MiniGridVectorEnv("MRN6", 3)
    observation, info = envs.reset(seed=0, options={"elapsed": np.array([0, 100, 119])})
    assert info["elapsed_steps"].tolist() == [0, 100, 119]
    np.testing.assert_array_equal(observation["image"], twin.reset(seed=0)[0]["image"])
    ends = np.zeros(3, dtype=int)
    for time in range(1, 142):
        observation, _, _, truncated, _ = envs.step(np.full(3, TURN_RIGHT))
        twin.step(np.full(3, TURN_RIGHT))
        ends[truncated & (ends == 0)] = time
    assert ends.tolist() == [120, 20, 1]
    # Later episodes are whole: these began at steps 22 and 3, and end after 120.
    assert envs.observe()[1]["elapsed_steps"].tolist() == [20, 120, 18]


@pytest.mark.parametrize("task", ["MRN6", "MiniGrid-Dynamic-Obstacles-5x5-v0"])
def test_a_fixed_seed_plays_one_level_for_ever(task: str) -> None:
    envs = MiniGridVectorEnv(task, 3, fixed_seed=77)
    first, _ = envs.reset(seed=5)
    np.testing.assert_array_equal(first["image"][0], make_farama(task).reset(seed=77)[0]["image"])
    episodes: list[list[bytes]] = [[]]
    for _ in range(500):
        observation, _, terminated, truncated, _ = envs.step(np.full(3, TURN_RIGHT))
        assert (observation["image"] == observation["image"][0]).all()
        episodes[-1].append(observation["image"][0].tobytes())
        if terminated[0] or truncated[0]:
            episodes.append([])
    whole = episodes[1:-1]  # without the first, whose first observation came from reset()
    assert len(whole) >= 2
    assert all(episode == whole[0] for episode in whole)
    assert whole[0][0] == first["image"][0].tobytes()


def test_success_on_the_last_step_terminates_and_truncates() -> None:
    task = "MiniGrid-Empty-5x5-v0"
    way = [FORWARD, FORWARD, TURN_RIGHT, FORWARD, FORWARD]
    actions = [DONE] * (100 - len(way)) + way
    ours, theirs = MiniGridVectorEnv(task, 1), make_farama(task)
    ours.reset(seed=0)
    theirs.reset(seed=0)
    for action in actions:
        _, reward, terminated, truncated, info = ours.step(np.array([action]))
        _, their_reward, their_terminated, their_truncated, _ = theirs.step(action)
        assert (reward[0], terminated[0], truncated[0]) == (their_reward, their_terminated, their_truncated)
    assert terminated[0] and truncated[0] and reward[0] == 1 - 0.9
    assert info["episode"]["r"][0] == reward[0] and info["episode"]["l"][0] == 100


def test_shorter_episodes_are_the_beginnings_of_longer_ones() -> None:
    short, long = MiniGridVectorEnv("OMFull", 4, max_episode_steps=50), MiniGridVectorEnv("OMFull", 4)
    first, second = short.reset(seed=3), long.reset(seed=3)
    for step, action in enumerate(random_actions(50, 4), start=1):
        assert_equal(first[0], second[0])
        *first, truncated, info = short.step(action)
        *second, _, _ = long.step(action)
        np.testing.assert_array_equal(first[1], second[1])
        assert truncated.all() == (step == 50)
    assert info["episode"]["l"].tolist() == [50] * 4
    late = long.get_state()
    short.set_state(late)  # of an episode that is longer already than it may be: it ends at the next step
    assert short.step(np.zeros(4, int))[3].all()
    assert MiniGridVectorEnv("MRN6", 1, max_episode_steps=10**6).max_episode_steps == 120
    with pytest.raises(ValueError, match="must not be negative"):
        MiniGridVectorEnv("MRN6", 1, max_episode_steps=-1)


def test_a_success_pays_the_same_in_shorter_episodes() -> None:
    envs = MiniGridVectorEnv("MiniGrid-Empty-5x5-v0", 1, max_episode_steps=10)
    theirs = make_farama("MiniGrid-Empty-5x5-v0")
    envs.reset(seed=0)
    theirs.reset(seed=0)
    for action in (FORWARD, FORWARD, TURN_RIGHT, FORWARD, FORWARD):
        reward = envs.step(np.array([action]))[1]
        their_reward = theirs.step(action)[1]
    assert reward[0] == their_reward > 0


def test_the_step_after_an_end_only_resets() -> None:
    envs = MiniGridVectorEnv("MiniGrid-Empty-5x5-v0", 1)
    envs.reset(seed=0)
    for action in (FORWARD, FORWARD, TURN_RIGHT, FORWARD, FORWARD):
        envs.step(np.array([action]))
    _, reward, terminated, truncated, info = envs.step(np.array([-3]))  # ignored, so it may be anything
    assert (reward[0], terminated[0], truncated[0]) == (0.0, False, False)
    assert info["elapsed_steps"][0] == 0 and info["agent_pos"][0].tolist() == [1, 1]
    assert "episode" not in info


def test_states_can_be_saved_and_restored() -> None:
    task = "MiniGrid-Dynamic-Obstacles-Random-6x6-v0"
    envs = MiniGridVectorEnv(task, 5)
    envs.reset(seed=3)
    actions = random_actions(200, 5) % 3
    for action in actions[:90]:
        envs.step(action)
    saved = envs.get_state()
    kept = {name: value.copy() for name, value in saved.items()}
    expected = [envs.step(action) for action in actions[90:]]
    assert_equal(saved, kept)
    again = MiniGridVectorEnv(task, 5)
    again.set_state(saved)
    for action, outcome in zip(actions[90:], expected, strict=True):
        assert_equal(again.step(action), outcome)
    assert sum(int(outcome[2].sum()) for outcome in expected) > 5


def test_the_state_key_tells_states_apart_and_only_states() -> None:
    envs = MiniGridVectorEnv("OM2Dlh", 4)
    envs.reset(seed=[1, 1, 2, 3])
    explorer = Explorer(4, np.random.default_rng(0))
    key_of: dict[bytes, int] = {}
    for _ in range(1500):
        _, _, _, _, info = envs.step(explorer.act(envs))
        state = envs.get_state()
        for i, key in enumerate(info["state_key"].tolist()):
            full = b"".join(state[name][i].tobytes() for name in ("cells", "agent", "carried"))
            assert key_of.setdefault(full, key) == key
    assert len(set(key_of.values())) == len(key_of) > 1000


def test_state_keys_are_the_same_in_every_version() -> None:
    """Counts saved under these keys must mean the same when they are read again."""
    envs = MiniGridVectorEnv("OM2Dlhb", 2)
    _, info = envs.reset(seed=0)
    assert info["state_key"].tolist() == [15040873480402547399, 2265670944484849738]
    for action in (FORWARD, TURN_RIGHT, FORWARD):
        *_, info = envs.step(np.full(2, action))
    assert info["state_key"].tolist() == [1334560673308538705, 11120787794147242310]


def test_the_state_key_sees_into_boxes() -> None:
    envs = MiniGridVectorEnv("OM2Dlh", 1)
    _, info = envs.reset(seed=0)
    observation, _ = envs.observe()
    state = envs.get_state()
    boxes = np.flatnonzero(state["cells"] >> 24 & 0xF)
    assert len(boxes) == 2
    flat = state["cells"].reshape(-1)
    flat[boxes] = flat[boxes[::-1]]
    envs.set_state(state)
    swapped, swapped_info = envs.observe()
    np.testing.assert_array_equal(swapped["image"], observation["image"])
    assert swapped_info["state_key"] != info["state_key"]


def test_returned_arrays_stay_as_they_were() -> None:
    envs = MiniGridVectorEnv("KCS3R3", 8, full_grid=True)
    outcomes = [envs.reset(seed=0)]
    outcomes += [envs.step(action) for action in random_actions(30, 8)]
    again = MiniGridVectorEnv("KCS3R3", 8, full_grid=True)
    assert_equal(again.reset(seed=0), outcomes[0])
    for action, outcome in zip(random_actions(30, 8), outcomes[1:], strict=True):
        assert_equal(again.step(action), outcome)


def test_pictures_are_faramas() -> None:
    task = "MiniGrid-ObstructedMaze-1Dlhb-v0"
    ours = MiniGridVectorEnv(task, 1, render_mode="rgb_array")
    theirs = make_farama(task, render_mode="rgb_array")
    ours.reset(seed=5)
    theirs.reset(seed=5)
    explorer = Explorer(1, np.random.default_rng(1))
    for time in range(200):
        if time % 20 == 0:
            np.testing.assert_array_equal(ours.render()[0], theirs.render())
        action = explorer.act(ours)
        _, _, terminated, truncated, _ = ours.step(action)
        theirs.step(int(action[0]))
        if terminated[0] or truncated[0]:
            break
    assert time > 60


def test_misuse_is_answered_in_one_sentence() -> None:
    envs = MiniGridVectorEnv("KCS3R3", 2)
    with pytest.raises(RuntimeError, match="reset"):
        envs.step(np.array([0, 0]))
    with pytest.raises(ValueError, match="first reset"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    for actions in ([0], [[0], [0]], [0.0, 1.0], [True, False], ["a", "b"]):
        with pytest.raises(ValueError, match="2 integer actions"):
            envs.step(np.array(actions))
    before = envs.get_state()
    for action in (7, -1):
        with pytest.raises(ValueError, match="environment 1 is not between 0 and 6"):
            envs.step(np.array([0, action]))
    assert_equal(envs.get_state(), before)
    for mask in (np.array([True]), np.array([1, 0]), np.array([False, False])):
        with pytest.raises(ValueError, match="reset_mask must be"):
            envs.reset(options={"reset_mask": mask})
    for elapsed in (np.array([1]), np.array([0.0, 1.0]), np.array([-1, 0]), np.array([0, 270])):
        with pytest.raises(ValueError, match="elapsed must be 2 integers from 0 to 269"):
            envs.reset(options={"elapsed": elapsed})
    for seed in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match="seeds for 2 environments"):
            envs.reset(seed=seed)
    with pytest.raises(ValueError, match="negative"):
        envs.reset(seed=-1)
    with pytest.raises(ValueError, match="at least 1"):
        MiniGridVectorEnv("KCS3R3", 0)
    with pytest.raises(ValueError, match="render_mode"):
        MiniGridVectorEnv("KCS3R3", 1, render_mode="human")
