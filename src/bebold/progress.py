"""How far a run is: a bar for a person, a line now and then for a log."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Self

RETURN, EVALUATION = "charts/episodic_return", "eval/return_mean"
WINDOW = 20
"""Updates over which the speed is measured; the time left follows from it."""


class Progress:
    """Shows steps, steps/s, return and time left while it is entered.

    Parameters
    ----------
    total : steps in all
    start : steps done before (a resumed run)
    title : a few words in front
    quiet : print a plain line every `interval` seconds in place of the bar; also without a terminal
    """

    def __init__(self, total: int, *, start: int = 0, title: str = "", quiet: bool = False, interval: float = 30.0):
        self.total, self.title, self.interval = total, title, interval
        self.plain = quiet or not sys.stderr.isatty()
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), start)], maxlen=WINDOW)
        self._said = time.monotonic()
        self._shown: dict[str, float] = {}
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if not self.plain:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar
            from rich.table import Column

            columns = (
                TextColumn("{task.description}", table_column=Column(no_wrap=True, ratio=None)),
                BarColumn(bar_width=None, table_column=Column(ratio=1)),
                TextColumn("{task.fields[words]}", table_column=Column(no_wrap=True, ratio=None)),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), expand=True)
            self._task = self._bar.add_task(self.title, total=self.total, completed=self.steps, words="starting")
            self._bar.start()
        return self

    def update(self, steps: int, stats: Mapping[str, float]) -> None:
        """Show `steps` and what `stats` say of the return."""
        now = time.monotonic()
        self._marks.append((now, steps))
        # Most updates end no evaluation and some no episode: the last known value stays in view.
        for key in (RETURN, EVALUATION):
            value = float(stats.get(key, math.nan))
            if math.isfinite(value):
                self._shown[key] = value
        if self._bar is not None:
            self._bar.update(self._task, completed=steps, words=self.words())
        elif now - self._said >= self.interval:
            self._said = now
            self._say()

    @property
    def steps(self) -> int:
        """As of the last update."""
        return self._marks[-1][1]

    @property
    def speed(self) -> float:
        """Steps a second over the last updates; 0 before the first."""
        (then, before), (now, steps) = self._marks[0], self._marks[-1]
        return (steps - before) / (now - then) if now > then else 0.0

    @property
    def seconds_left(self) -> float:
        """At that speed; infinite while it is 0."""
        return (self.total - self.steps) / self.speed if self.speed > 0 else math.inf

    def words(self) -> str:
        """One line: steps, speed, return, time left."""
        parts = [f"{self.steps / 1e6:.2f}/{self.total / 1e6:.2f} M steps", f"{self.speed:,.0f}/s"]
        if self.speed > 0:
            parts.append(f"{clock(self.seconds_left)} left")
        if RETURN in self._shown:
            parts.append(f"return {self._shown[RETURN]:.2f}")
        if EVALUATION in self._shown:
            parts.append(f"eval {self._shown[EVALUATION]:.2f}")
        return ", ".join(parts)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._shown or self._marks[-1][1] > self._marks[0][1]:
            self._say()

    def _say(self) -> None:
        print(f"{self.title}: {self.words()}" if self.title else self.words(), file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """`3725` as `1:02:05`."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
