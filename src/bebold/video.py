"""A trained policy at play in Farama's environments: as frames, as a file, or live in the terminal."""

from __future__ import annotations

import io
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bebold.checkpoint import replacing
from bebold.envs.farama import FaramaVectorEnv
from bebold.errors import UsageError
from bebold.evaluation import play_steps
from bebold.gridworld.tasks import find_task
from bebold.networks import Policy

if TYPE_CHECKING:
    from rich.text import Text

LARGEST = 448
"""Pixels of the longer side of a frame, at most."""
HOLD = 8
"""Times that the last frame of an episode is shown."""

GLYPHS = {
    "wall": "██",
    "floor": "··",
    "goal": "▒▒",
    "lava": "≈≈",
    "key": "⚷ ",
    "ball": "● ",
    "box": "▣ ",
    "open": "░░",
    "closed": "▐▌",
    "locked": "▐▪",
}
"""Two columns a cell, so that cells are about square."""
AGENT = ("▶ ", "▼ ", "◀ ", "▲ ")
COLOURS = {
    "red": "red",
    "green": "green",
    "blue": "dodger_blue2",
    "purple": "medium_orchid",
    "yellow": "yellow",
    "grey": "grey50",
}


@dataclass(frozen=True)
class Moment:
    """The environment after a step, the first one being its reset."""

    env: Any
    steps: int
    episodic_return: float
    ended: bool


def play_episode(
    policy: Policy, task: str, *, seed: int, greedy: bool = False, largest: int = LARGEST
) -> Generator[Moment]:
    """Play one episode of Farama's environment on level `seed`; a frame has about `largest` pixels a side at most."""
    known = find_task(task)
    with (
        closing(FaramaVectorEnv(known, 1, full_grid="grid" in policy.observes, autoreset=False)) as envs,
        closing(play_steps(policy, envs, [seed], greedy=greedy, action_seed=seed)) as played,
    ):
        (env,) = envs.envs
        # Even, since H.264 takes no odd sizes.
        env.tile_size = max(8, min(32, largest // max(known.width, known.height) // 2 * 2))
        for steps, (so_far, playing) in enumerate(played):
            yield Moment(env, steps, float(so_far.returns[0]), not playing.any())


def record_episode(
    policy: Policy, task: str, *, seed: int, greedy: bool = False, largest: int = LARGEST, max_frames: int = 2000
) -> tuple[list[np.ndarray], float | None]:
    """The frames, uint8 `[height, width, 3]`, of one episode, and what it earned; None if it goes on after them."""
    frames, earned = [], None
    with closing(play_episode(policy, task, seed=seed, greedy=greedy, largest=largest)) as moments:
        for moment in islice(moments, max_frames):
            frames.append(moment.env.render())
            earned = moment.episodic_return if moment.ended else None
    return frames, earned


def record_episodes(policy: Policy, task: str, seeds: Sequence[int], *, greedy: bool = False) -> list[np.ndarray]:
    """The frames of one episode a seed, one after the other; the last of each is held."""
    episodes = [record_episode(policy, task, seed=seed, greedy=greedy) for seed in seeds]
    return [frame for frames, _ in episodes for frame in held(frames)]


def held(frames: Sequence[np.ndarray]) -> list[np.ndarray]:
    """These frames, the last of them `HOLD` times."""
    return [*frames, *[frames[-1]] * (HOLD - 1)]


def check_video(path: Path) -> None:
    """Refuse a file that `write_video` could not write, before anything is played for it.

    Raises
    ------
    UsageError : its ending is neither `.gif` nor `.mp4`, or it is an MP4 and imageio-ffmpeg is not installed
    """
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise UsageError(f"'{path}' ends neither in .gif nor in .mp4; name one that does")
    if path.suffix.lower() == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError:
            raise UsageError(
                f"{path}: an MP4 needs imageio-ffmpeg; `pip install imageio-ffmpeg` (the extra `mp4`), or name a .gif"
            ) from None


def write_video(frames: Sequence[np.ndarray], path: Path, *, fps: float = 8.0) -> None:
    """Write frames as `.gif` or `.mp4`, after the ending of `path`.

    Raises
    ------
    UsageError : see `check_video`
    RunError : `path` cannot be written
    """
    import imageio.v3 as imageio

    check_video(path)
    if path.suffix.lower() == ".gif":
        content = as_gif(frames, fps=fps)
    else:
        buffer = io.BytesIO()
        imageio.imwrite(buffer, np.stack(frames), extension=".mp4", plugin="FFMPEG", fps=fps, macro_block_size=2)
        content = buffer.getvalue()
    with replacing(path) as file:
        file.write(content)


def as_gif(frames: Sequence[np.ndarray], *, fps: float = 8.0) -> bytes:
    """Frames, uint8 `[height, width, 3]` each, as a GIF that begins anew when it ends; 100 a second at most."""
    import imageio.v3 as imageio

    content = io.BytesIO()
    # The format counts in hundredths of a second, and browsers take less than one for ten.
    duration = max(10.0, 1000 / fps)
    imageio.imwrite(content, np.stack(frames), extension=".gif", loop=0, duration=duration)
    return content.getvalue()


def show_in_terminal(policy: Policy, task: str, *, seed: int, greedy: bool = False, fps: float = 8.0) -> float:
    """Play one episode as coloured characters; returns what it earned."""
    from rich.live import Live

    earned = 0.0
    with Live(auto_refresh=False) as live, closing(play_episode(policy, task, seed=seed, greedy=greedy)) as moments:
        for moment in moments:
            live.update(draw(moment), refresh=True)
            earned = moment.episodic_return
            time.sleep(1 / fps)
    return earned


def draw(moment: Moment) -> Text:
    """The whole grid as coloured characters, two columns a cell, above a line of figures."""
    from rich.text import Text

    env = moment.env.unwrapped
    text = Text()
    for y in range(env.height):
        for x in range(env.width):
            if (x, y) == tuple(env.agent_pos):
                text.append(AGENT[env.agent_dir], style="bold red")
            else:
                text.append(*_glyph(env.grid.get(x, y)))
        text.append("\n")
    carried = f", carries a {env.carrying.color} {env.carrying.type}" if env.carrying else ""
    return text.append(f"{env.mission}: step {moment.steps}, return {moment.episodic_return:.2f}{carried}")


def _glyph(thing: Any) -> tuple[str, str]:
    if thing is None:
        return "  ", ""
    if thing.type == "door":
        kind = "open" if thing.is_open else "locked" if thing.is_locked else "closed"
    else:
        kind = thing.type
    return GLYPHS[kind], COLOURS[thing.color]
