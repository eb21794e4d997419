"""A headless Chromium, driven through its debugging pipe: no driver, no package, one page at a time."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from select import select
from typing import Any

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
    "--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
# The browser reads commands from descriptor 3 and answers on 4.
LAUNCH = (
    "import os, sys; a, b = (os.dup(int(x)) for x in sys.argv[1:3]); os.dup2(a, 30); os.dup2(b, 31);"
    "os.dup2(30, 3); os.dup2(31, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


class Chromium:
    """One tab. `events` are what the page told since it was opened."""

    def __init__(self, profile: Path) -> None:
        assert BINARY is not None
        inward, self._out = os.pipe()
        self._in, outward = os.pipe()
        command = [
            sys.executable,
            "-c",
            LAUNCH,
            str(inward),
            str(outward),
            BINARY,
            *FLAGS,
            f"--user-data-dir={profile}",
        ]
        self._process = subprocess.Popen(
            command, pass_fds=(inward, outward), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(inward)
        os.close(outward)
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer. Raises RuntimeError for an error, TimeoutError after a minute."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self._messages(60):
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
        raise TimeoutError(method)

    def open(self, url: str) -> None:
        """Load a page and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            for message in self._messages(60):
                if message.get("method") == "Page.loadEventFired":
                    return
            raise TimeoutError(url)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def look(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window and whether the reader prefers light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        codes = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35, "Tab": 9}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def shoot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def complaints(self) -> list[str]:
        """Errors of the console and uncaught exceptions since the page was opened."""
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"].get("exception", params["exceptionDetails"])))
            if event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            if event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(str(params["args"]))
        return found

    def requests(self) -> list[str]:
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def close(self) -> None:
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            self._session = ""
            self.call("Browser.close")
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        self._process.kill()
        self._process.wait()

    def _messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        """Messages as they come; events are kept. Ends when nothing comes for too long."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            while b"\0" in self._buffer:
                text, _, self._buffer = self._buffer.partition(b"\0")
                message: dict[str, Any] = json.loads(text)
                if "method" in message:
                    self.events.append(message)
                yield message
            if select([self._in], [], [], 1.0)[0]:
                self._buffer += os.read(self._in, 1 << 20)
