"""Headless Chromium, spoken to over two pipes with the standard library alone."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",  # which root may not use; the page is our own
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
)
PATIENCE = 200.0
"""Seconds until an answer is given up: far above what a busy machine takes, below the tests' own limit."""


def find_browser() -> str:
    """The path of a browser; skips the test where there is none."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        pytest.skip(f"there is no browser on this machine: none of {', '.join(NAMES)} is installed")
    return found


class Browser:
    """One page of a browser, and what it complained of and asked for."""

    def __init__(self, profile: Path):
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        # Clear of 3 and 4, which the shell is about to give away.
        read_there, write_there = (_moved(descriptor) for descriptor in (read_there, write_there))
        self._in, self._out = read_here, write_here
        self._rest = b""
        self._number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        # The browser reads commands from descriptor 3 and answers on 4.
        wiring = f'exec "$0" "$@" 3<&{read_there} 4>&{write_there}'
        command = ["bash", "-c", wiring, find_browser(), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(read_there, write_there), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(read_there)
        os.close(write_there)
        targets = self._call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol to the page."""
        return self._call(method, session=self._session, **parameters)

    def open(self, path: Path) -> None:
        self.call("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + PATIENCE
        while self.value("document.readyState") != "complete" or self.value("location.protocol") != "file:":
            assert time.monotonic() < end, "the page does not load"
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is in the page; not bound by its policy on scripts."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        match event:
            case {"method": "Network.requestWillBeSent", "params": {"request": {"url": url}}}:
                self.requests.append(url)
            case {"method": "Log.entryAdded", "params": {"entry": entry}}:
                self.complaints.append(entry["text"])
            case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": details}}:
                self.complaints.append(json.dumps(details))
            case {"method": "Runtime.consoleAPICalled", "params": parameters}:
                self.complaints.append(json.dumps(parameters["args"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)  # the browser ends when nobody speaks to it
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)


def _moved(descriptor: int) -> int:
    """The same open file under a number of at least 10."""
    new = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return new
