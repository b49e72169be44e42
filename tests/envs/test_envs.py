"""One contract for our engine, Farama's environments and other Gymnasium environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from minigrid.core.constants import DIR_TO_VEC
from minigrid.core.world_object import Door
from minigrid.minigrid_env import MiniGridEnv

from bebold.envs import make_envs, make_farama_envs
from bebold.errors import UsageError
from bebold.gridworld import UnknownTask
from bebold.gridworld.explorer import Explorer
from bebold.gridworld.lockstep import farama_full_grid
from bebold.gridworld.tasks import make_farama

TASK = "MiniGrid-Empty-Random-5x5-v0"


def test_ours_and_faramas_are_interchangeable() -> None:
    ours, theirs = make_envs(TASK, 3, full_grid=True), make_farama_envs(TASK, 3, full_grid=True)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    seeds = [5, 900, 33]
    results = [envs.reset(seed=seeds) for envs in (ours, theirs)]
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(250):
        (observation, info), (expected, expected_info) = results
        assert observation.keys() == expected.keys()
        for name in expected:
            np.testing.assert_array_equal(observation[name], expected[name])
            assert observation[name].dtype == expected[name].dtype
        for name in ("agent_pos", "elapsed_steps"):
            np.testing.assert_array_equal(info[name], expected_info[name])
        assert ("episode" in info) == ("episode" in expected_info)
        if "episode" in info:
            ends += int(info["_episode"].sum())
            np.testing.assert_array_equal(info["_episode"], expected_info["_episode"])
            for name in ("r", "l"):
                np.testing.assert_array_equal(info["episode"][name], expected_info["episode"][name])
        actions = rng.choice(3, size=3, p=[0.2, 0.2, 0.6])
        outcomes = [envs.step(actions) for envs in (ours, theirs)]
        for mine, faramas in zip(outcomes[0][1:4], outcomes[1][1:4], strict=True):
            np.testing.assert_array_equal(mine, faramas)
        results = [(outcome[0], outcome[4]) for outcome in outcomes]
    assert ends > 10
    theirs.close()


@pytest.mark.parametrize(
    "task",
    [
        "KCS3R3",
        "OM2Dlhb",
        "MiniGrid-MultiRoom-N2-S4-v0",
        "MiniGrid-DoorKey-6x6-v0",
        "MiniGrid-RedBlueDoors-6x6-v0",
        "MiniGrid-LavaGapS5-v0",
        "MiniGrid-Dynamic-Obstacles-5x5-v0",
    ],
)
def test_faramas_environments_side_by_side_show_what_each_would_alone(task: str) -> None:
    num_envs, steps = 4, 200
    ours, theirs = make_envs(task, num_envs), make_farama_envs(task, num_envs, full_grid=True)
    alone = [make_farama(task).unwrapped for _ in range(num_envs)]
    seeds = list(range(40, 40 + num_envs))
    ours.reset(seed=seeds)
    observation, _ = theirs.reset(seed=seeds)
    views = [env.reset(seed=seed)[0]["image"] for env, seed in zip(alone, seeds, strict=True)]
    explorer = Explorer(num_envs, np.random.default_rng(1))
    ended = np.zeros(num_envs, bool)

    def compare(observation: dict[str, np.ndarray], views: list[np.ndarray]) -> None:
        np.testing.assert_array_equal(observation["image"], views)
        np.testing.assert_array_equal(observation["grid"], [farama_full_grid(env) for env in alone])

    compare(observation, views)
    for _ in range(steps):
        actions = explorer.act(ours)  # type: ignore[arg-type]
        observation, *_ = theirs.step(actions)
        views = [
            env.reset()[0]["image"] if over else env.step(action)[0]["image"]
            for env, action, over in zip(alone, actions.tolist(), ended, strict=True)
        ]
        compare(observation, views)
        _, _, terminated, truncated, _ = ours.step(actions)
        ended = terminated | truncated
        explorer.forget(ended)
    theirs.close()


def test_farama_makes_a_view_once_while_the_level_stays_as_it_is(monkeypatch) -> None:
    made, generate = [], MiniGridEnv.gen_obs
    monkeypatch.setattr(MiniGridEnv, "gen_obs", lambda env: made.append(env) or generate(env))
    left, toggle = 0, 5

    def asked(envs: VectorEnv, *actions: int) -> int:
        before = len(made)
        for action in actions:
            envs.step(np.array([action]))
        return len(made) - before

    envs = make_farama_envs("MiniGrid-MultiRoom-N2-S4-v0", 1)
    envs.reset(seed=[3])
    env = envs.envs[0]  # type: ignore[attr-defined]
    x, y = next((x, y) for x in range(25) for y in range(25) if isinstance(env.grid.get(x, y), Door))
    env.agent_pos, env.agent_dir = next(
        ((x - dx, y - dy), way) for way, (dx, dy) in enumerate(DIR_TO_VEC) if env.grid.get(x - dx, y - dy) is None
    )
    assert asked(envs, *8 * [left]) == 4
    assert asked(envs, toggle) == 1
    assert env.grid.get(x, y).is_open
    assert asked(envs, *8 * [left]) == 3
    before = len(made)
    env.reset(seed=3)
    assert len(made) == before + 1
    envs.close()
    envs = make_farama_envs("MiniGrid-Dynamic-Obstacles-5x5-v0", 1)
    envs.reset(seed=[3])
    assert asked(envs, *8 * [left]) == 8
    envs.close()


@pytest.mark.parametrize("make", [make_envs, make_farama_envs])
def test_seed_is_that_of_the_first_reset_only(make) -> None:
    seeded, other = make(TASK, 2, seed=7), make(TASK, 2)
    first, again = seeded.reset()[0], seeded.reset()[0]
    np.testing.assert_array_equal(first["image"], other.reset(seed=7)[0]["image"])
    np.testing.assert_array_equal(again["image"], other.reset()[0]["image"])


def test_without_autoreset_an_ended_environment_waits() -> None:
    envs = make_farama_envs("MiniGrid-Dynamic-Obstacles-5x5-v0", 1, seed=1, autoreset=False)
    envs.reset()
    ended = False
    while not ended:  # forward until a wall or a ball is hit, which ends the episode
        observation, reward, terminated, _, info = envs.step(np.array([2]))
        ended = bool(terminated[0])
    assert reward[0] == -1.0
    later, reward, terminated, truncated, later_info = envs.step(np.array([2]))
    np.testing.assert_array_equal(later["image"], observation["image"])
    assert later_info["elapsed_steps"] == info["elapsed_steps"]
    assert reward[0] == 0.0 and not terminated[0] and not truncated[0]


def test_another_environment_observes_a_dict_and_counts_its_episodes() -> None:
    envs = make_envs("CartPole-v1", 3, seed=4)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    observation, info = envs.reset()
    for i in range(3):
        single = gymnasium.make("CartPole-v1")
        np.testing.assert_array_equal(observation["vector"][i], single.reset(seed=4 + i)[0])
    lengths = np.zeros(3, dtype=np.int64)
    ended = np.zeros(3, dtype=bool)
    for _ in range(120):
        observation, reward, terminated, truncated, info = envs.step(np.zeros(3, dtype=np.int64))
        lengths = np.where(ended, 0, lengths + 1)
        np.testing.assert_array_equal(info["elapsed_steps"], lengths)
        assert not reward[ended].any()
        ended = terminated | truncated
        if ended.any():
            np.testing.assert_array_equal(info["_episode"], ended)
            np.testing.assert_array_equal(info["episode"]["r"], np.where(ended, lengths, 0))
            np.testing.assert_array_equal(info["episode"]["l"], np.where(ended, lengths, 0))
    assert observation["vector"].shape == (3, 4)
    envs.close()


def test_another_environment_can_keep_its_seed() -> None:
    envs = make_envs("CartPole-v1", 2, fixed_seed=11)
    first = envs.reset(seed=3)[0]["vector"]
    np.testing.assert_array_equal(first[0], first[1])
    ended = np.zeros(2, dtype=bool)
    resets = 0
    for _ in range(60):
        observation, _, terminated, truncated, _ = envs.step(np.array([0, 1]))
        resets += int(ended.sum())
        np.testing.assert_array_equal(observation["vector"][ended], first[ended])
        ended = terminated | truncated
    assert resets > 4
    envs.close()


@pytest.mark.parametrize(
    ("id", "limit"), [("MRN6", 7), ("MRN6", 10**6), ("MountainCar-v0", 7), ("MountainCar-v0", 10**6)]
)
def test_episodes_can_be_cut_shorter_but_not_longer(id: str, limit: int) -> None:
    envs = make_envs(id, 1, seed=0, max_episode_steps=limit)
    envs.reset()
    end = min(limit, 120 if id == "MRN6" else 200)
    for step in range(1, end + 1):
        truncated = envs.step(np.array([0]))[3]  # turning, or driving backwards, never succeeds
        assert truncated[0] == (step == end)
    envs.close()


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        make_envs("CartPole-v1", 1, max_episode_steps=-3)


def test_minigrid_tasks_without_an_engine_come_from_farama() -> None:
    envs = make_envs("MiniGrid-MemoryS7-v0", 2, seed=0)
    observation, _ = envs.reset()
    assert observation.keys() == {"image", "direction"}
    assert observation["image"].shape == (2, 7, 7, 3)
    envs.close()


def test_a_multi_room_of_any_size_is_made_by_its_id() -> None:
    id = "MiniGrid-MultiRoom-N3-S6-v0"
    ours, theirs = make_envs(id, 2), make_farama_envs(f"bebold/{id}", 2)
    np.testing.assert_array_equal(ours.reset(seed=3)[0]["image"], theirs.reset(seed=3)[0]["image"])
    theirs.close()


def test_what_cannot_be_made_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="rooms, not 40"):
        make_envs("MiniGrid-MultiRoom-N40-S6-v0", 2)
    with pytest.raises(UnknownTask, match="did you mean KCS4R3"):
        make_envs("KCS4R", 2)
    with pytest.raises(ValueError, match="full grid"):
        make_envs("CartPole-v1", 2, full_grid=True)
    for make in (make_envs, make_farama_envs):
        with pytest.raises(ValueError, match="at least 1"):
            make(TASK, 0)
        with pytest.raises(ValueError, match="3 seeds for 2"):
            make(TASK, 2).reset(seed=[1, 2, 3])
