"""For all tests."""

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """As at a terminal: what a shell starts in the background ignores SIGINT, and so would all that tests interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
