"""What is said of a run while it goes on."""

from __future__ import annotations

import math

import pytest

from bebold import progress
from bebold.progress import EVALUATION, RETURN, Progress, clock


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    time = Clock()
    monkeypatch.setattr(progress, "time", time)
    return time


def test_steps_speed_time_left_and_return(time: Clock) -> None:
    bar = Progress(10_000_000, start=2_000_000, quiet=True)
    assert bar.words() == "2.00/10.00 M steps, 0/s"
    time.now += 10
    bar.update(2_500_000, {RETURN: 0.125})
    assert bar.words() == "2.50/10.00 M steps, 50,000/s, 2:30 left, return 0.12"
    time.now += 10
    bar.update(3_000_000, {RETURN: math.nan, EVALUATION: 0.5})  # no episode ended: the last return stays
    assert bar.words() == "3.00/10.00 M steps, 50,000/s, 2:20 left, return 0.12, eval 0.50"


def test_speed_is_of_the_last_updates(time: Clock) -> None:
    bar = Progress(10**9, quiet=True)
    steps = 0
    for speed in [100] * progress.WINDOW + [10_000] * progress.WINDOW:
        time.now += 1
        steps += speed
        bar.update(steps, {})
    assert "10,000/s" in bar.words()


def test_a_log_gets_a_line_now_and_then_and_one_at_the_end(time: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1000, title="KCS3R3", quiet=True, interval=30) as bar:
        for second in range(100):
            time.now += 1
            bar.update(second, {})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4 and all(line.startswith("KCS3R3: 0.00/0.00 M steps") for line in lines)


def test_nothing_is_said_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1000, quiet=True):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0:00"), (0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3725, "1:02:05")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
