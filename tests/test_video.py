"""Watching an agent: as frames, as files, as characters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import imageio.v3 as imageio
import numpy as np
import pytest
import torch
from minigrid.minigrid_env import MiniGridEnv

from bebold import video
from bebold.config import TrainConfig
from bebold.envs import make_envs, make_farama_envs
from bebold.errors import RunError, UsageError
from bebold.evaluation import make_policy, play
from bebold.gridworld.tasks import make_farama
from bebold.networks import Policy

RIGHT, FORWARD, PICK_UP, TOGGLE = 1, 2, 3, 5


class Scripted(Policy):
    """Plays a list of actions over and over, and notes what it was shown."""

    needs = frozenset({"image", "direction"})

    def __init__(self, *actions: int):
        super().__init__()
        self.actions = actions
        self.resting = False
        self.seen: list[dict[str, Any]] = []

    def initial_state(self, num_envs: int) -> torch.Tensor:
        return torch.zeros(num_envs, 1)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        self.resting = True
        try:
            yield
        finally:
            self.resting = False

    def act(self, obs: Any, state: torch.Tensor, starts: torch.Tensor, *, greedy: bool, generator: Any) -> Any:
        assert self.resting
        self.seen.append({**obs, "starts": starts.clone(), "state": state.clone(), "greedy": greedy})
        action = self.actions[int(state) % len(self.actions)]
        return SimpleNamespace(action=torch.tensor([action]), state=state + 1)


def test_an_episode_is_played_on_faramas_level() -> None:
    policy = Scripted(RIGHT, FORWARD)
    moments = [(m.steps, m.episodic_return, m.ended) for m in video.play_episode(policy, "KCS3R3", seed=5)]
    env = make_farama("KCS3R3")
    obs, _ = env.reset(seed=5)
    for t, seen in enumerate(policy.seen):
        np.testing.assert_array_equal(seen["image"][0], obs["image"])
        assert seen["direction"].tolist() == [obs["direction"]]
        assert seen["starts"].tolist() == [t == 0] and seen["state"].tolist() == [[t]]
        obs, *_ = env.step((RIGHT, FORWARD)[t % 2])
    assert moments[0] == (0, 0.0, False) and moments[-1] == (270, 0.0, True) and len(moments) == 271


def test_a_guided_policy_is_shown_as_it_is_judged() -> None:
    task = "MiniGrid-Empty-5x5-v0"
    policy = make_policy(TrainConfig(task=task, method="amigo"), make_envs(task, 1, full_grid=True))
    for seed in range(3):
        envs = make_farama_envs(task, 1, full_grid=True, autoreset=False)
        played = play(policy, envs, [seed], action_seed=seed)
        envs.close()
        last = list(video.play_episode(policy, task, seed=seed))[-1]
        assert (last.steps, last.episodic_return) == (played.lengths[0], pytest.approx(played.returns[0]))


def test_a_reward_is_told() -> None:
    # From the corner, along the left wall and then along the bottom one.
    policy = Scripted(FORWARD, FORWARD, RIGHT, FORWARD, FORWARD)
    last = list(video.play_episode(policy, "MiniGrid-Empty-5x5-v0", seed=0))[-1]
    assert last.ended and last.steps == 5 and last.episodic_return == pytest.approx(1 - 0.9 * 5 / 100)


def test_frames_fit_and_the_last_is_held() -> None:
    frames, earned = video.record_episode(Scripted(RIGHT), "MRN7S8", seed=0, max_frames=4)
    assert len(frames) == 4 and earned is None
    frames = video.held(frames)
    assert len(frames) == 4 + video.HOLD - 1
    assert all(frame.dtype == np.uint8 and frame.shape == (400, 400, 3) for frame in frames)
    assert not np.array_equal(frames[0], frames[1]) and np.array_equal(frames[3], frames[-1])


def test_wherever_an_episode_breaks_off_its_environment_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[MiniGridEnv] = []
    monkeypatch.setattr(MiniGridEnv, "close", lambda env: closed.append(env))
    kept = []  # else what nobody closes would be closed as garbage
    play_episode = video.play_episode
    monkeypatch.setattr(video, "play_episode", lambda *a, **k: kept.append(play_episode(*a, **k)) or kept[-1])
    task, policy = "MiniGrid-Empty-5x5-v0", Scripted(FORWARD, FORWARD, RIGHT, FORWARD, FORWARD)
    for most, number, earned in ((2000, 6, pytest.approx(0.955)), (6, 6, pytest.approx(0.955)), (5, 5, None)):
        frames, found = video.record_episode(policy, task, seed=0, max_frames=most)
        assert (len(frames), found) == (number, earned)

    def interrupted(moment: video.Moment) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(video, "draw", interrupted)
    with pytest.raises(KeyboardInterrupt):
        video.show_in_terminal(policy, task, seed=0)
    assert len(set(closed)) == len(closed) == len(kept) == 4
    assert not policy.resting


def test_a_gif_is_written(tmp_path: Path) -> None:
    frames = [np.full((16, 16, 3), shade, np.uint8) for shade in (0, 100, 200)]
    video.write_video(frames, tmp_path / "new" / "a.gif", fps=10)
    back = imageio.imread(tmp_path / "new" / "a.gif")
    assert back.shape == (3, 16, 16, 3) and [int(f.mean()) for f in back] == [0, 100, 200]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # imageio's reader leaves its pipes open
def test_an_mp4_is_written(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="needs the extra `mp4`")
    frames = [np.full((32, 48, 3), shade, np.uint8) for shade in (20, 120, 220)]
    video.write_video(frames, tmp_path / "a.mp4", fps=10)
    back = imageio.imread(tmp_path / "a.mp4", plugin="FFMPEG")
    assert back.shape == (3, 32, 48, 3)
    assert [float(frame.mean()) for frame in back] == pytest.approx([20, 120, 220], abs=8)  # compressed with loss


def test_without_what_writes_an_mp4_its_lack_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UsageError, match=r"needs imageio-ffmpeg; `pip install imageio-ffmpeg`"):
        video.write_video([np.zeros((16, 16, 3), np.uint8)], tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_and_places_are_refused(tmp_path: Path) -> None:
    frames = [np.zeros((16, 16, 3), np.uint8)]
    with pytest.raises(UsageError, match=r"ends neither in \.gif nor in \.mp4"):
        video.write_video(frames, tmp_path / "a.avi")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        video.write_video(frames, tmp_path / "file" / "a.gif")


def test_the_grid_as_characters() -> None:
    env = make_farama("MiniGrid-DoorKey-5x5-v0")
    env.reset(seed=3)
    lines = video.draw(video.Moment(env, 4, 0.5, False)).plain.splitlines()
    grid = env.unwrapped.grid  # type: ignore[attr-defined]
    assert len(lines) == 6 and lines[0] == "██" * 5
    assert lines[5] == "use the key to open the door and then get to the goal: step 4, return 0.50"
    for y, line in enumerate(lines[:5]):
        for x, cell in enumerate(line[i : i + 2] for i in range(0, 10, 2)):
            thing = grid.get(x, y)
            if (x, y) == tuple(env.unwrapped.agent_pos):  # type: ignore[attr-defined]
                assert cell in video.AGENT
            elif thing is None:
                assert cell == "  "
            elif thing.type == "door":
                assert cell == video.GLYPHS["locked"]
            else:
                assert cell == video.GLYPHS[thing.type]


@pytest.mark.parametrize("task", ["OMFull", "MiniGrid-LavaGapS5-v0", "MiniGrid-Dynamic-Obstacles-5x5-v0"])
def test_all_things_can_be_drawn(task: str) -> None:
    env = make_farama(task)
    env.reset(seed=0)
    text = video.draw(video.Moment(env, 0, 0.0, False))
    assert len({len(line) for line in text.plain.splitlines()[:-1]}) == 1


def test_playing_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    policy = Scripted(FORWARD, FORWARD, RIGHT, FORWARD, FORWARD)
    earned = video.show_in_terminal(policy, "MiniGrid-Empty-5x5-v0", seed=0, fps=1e6)
    assert earned == pytest.approx(0.955)
    assert "get to the green goal square: step 5, return 0.95" in capsys.readouterr().out
