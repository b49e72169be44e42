"""Stopping when told to: SIGINT and SIGTERM are noted, and obeyed when everything is saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(RuntimeError):
    """Work stopped at a signal, after it had saved; `mend` is what goes on with it."""

    def __init__(self, signum: int, mend: str):
        super().__init__(f"stopped by {signal.Signals(signum).name}; go on with {mend}")
        self.signum = signum


@contextmanager
def caught_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM as a list to look at now and then; a second one is obeyed at once.

    Only a program's main thread can catch signals: elsewhere the list stays empty.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        signal.signal(signum, previous[signum] or signal.SIG_DFL)

    previous: dict[int, Any] = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    for signum, handler in previous.items():
        if handler is not signal.SIG_IGN:
            signal.signal(signum, note)
    try:
        yield received
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler or signal.SIG_DFL)
