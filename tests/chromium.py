"""A headless Chromium, driven through its debugging pipe: no driver and no package. One browser, any number of tabs."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
    "--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars", "--disable-extensions",
    # A page that was left is not kept for a way back: that keeps its process, and pages come by the hundred.
    "--disable-features=BackForwardCache",
)  # fmt: skip
# The browser reads commands from descriptor 3 and answers on 4.
LAUNCH = (
    "import os, sys; a, b = (os.dup(int(x)) for x in sys.argv[1:3]); os.dup2(a, 30); os.dup2(b, 31);"
    "os.dup2(30, 3); os.dup2(31, 4); os.execv(sys.argv[3], sys.argv[3:])"
)
# Every page meets a reader who is here for the first time and in whose window nothing slides: what is measured is
# where things stand, and a drawer on its way is wider than the window for as many frames as a busy machine takes.
FIRST_VISIT = """
  try { localStorage.clear(); } catch { /* about:blank has none */ }
  const still = new CSSStyleSheet();
  still.replaceSync("*, *::before, *::after { transition: none !important; animation: none !important }");
  document.adoptedStyleSheets = [still];
"""
# Listeners of media queries run at the head of the next frame, and what they change is laid out in that frame.
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
LIMIT = 60.0  # seconds for one answer
Message = dict[str, Any]


class Browser:
    """The browser. Tabs are opened by one thread; then each may be used by another."""

    def __init__(self, profile: Path) -> None:
        assert BINARY is not None
        inward, self._out = os.pipe()
        self._in, outward = os.pipe()
        started = [sys.executable, "-c", LAUNCH, str(inward), str(outward), BINARY, *FLAGS]
        self._process = subprocess.Popen(
            [*started, f"--user-data-dir={profile}"], pass_fds=(inward, outward), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(inward)
        os.close(outward)
        self._numbers, self._writing = itertools.count(1), threading.Lock()
        self._boxes: dict[str, queue.SimpleQueue[Message]] = {"": queue.SimpleQueue()}
        threading.Thread(target=self._sort, daemon=True).start()

    def send(self, session: str, method: str, params: dict[str, Any]) -> int:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        with self._writing:
            os.write(self._out, json.dumps(message).encode() + b"\0")
        return number

    def box(self, session: str) -> queue.SimpleQueue[Message]:
        return self._boxes.setdefault(session, queue.SimpleQueue())

    def tab(self) -> Tab:
        return Tab(self, self.session())

    def session(self) -> str:
        """A tab in a window and with a storage of its own: a tab behind another one would draw no frame."""
        whole = Tab(self, "")
        context = whole.call("Target.createBrowserContext")["browserContextId"]
        place = {"url": "about:blank", "browserContextId": context, "newWindow": True}
        target = whole.call("Target.createTarget", **place)["targetId"]
        session = str(whole.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        tab = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=FIRST_VISIT)
        return session

    def close(self) -> None:
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            Tab(self, "").call("Browser.close")
        self._process.kill()
        self._process.wait()
        os.close(self._out)

    def _sort(self) -> None:
        """Give each message to the tab it belongs to, until the browser is gone."""
        kept = b""
        while piece := os.read(self._in, 1 << 20):
            *texts, kept = (kept + piece).split(b"\0")
            for text in texts:
                message: Message = json.loads(text)
                self.box(message.get("sessionId", "")).put(message)
        os.close(self._in)


class Tab:
    """One tab. `events` are what the page told since it was opened."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session, self._scheme = browser, session, ""
        self.events: list[Message] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer. Raises RuntimeError for an error, TimeoutError after a minute of silence."""
        number = self._browser.send(self._session, method, params)
        for answer in self._messages(method):
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
        raise AssertionError("messages end with an exception only")

    def open(self, url: str) -> None:
        """Load a page and wait until it, its fonts and its layout are there."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            for message in self._messages(url):
                if message.get("method") == "Page.loadEventFired":
                    break
        self.ask("document.fonts.ready.then(() => true)")
        self.ask(TWO_FRAMES)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def look(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window and whether the reader prefers light or dark.

        Layout follows when it is asked for. Scripts that listen for the scheme are waited for: two frames.
        """
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        if scheme != self._scheme:
            self._scheme = scheme
            wish = {"name": "prefers-color-scheme", "value": scheme}
            self.call("Emulation.setEmulatedMedia", features=[wish])
            self.ask(TWO_FRAMES)

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

    def _messages(self, waiting_for: str) -> Iterator[Message]:
        """Messages as they come; events are kept."""
        box = self._browser.box(self._session)
        while True:
            try:
                message = box.get(timeout=LIMIT)
            except queue.Empty:
                raise TimeoutError(waiting_for) from None
            if "method" in message:
                self.events.append(message)
            yield message


class Chromium(Tab):
    """One tab in a browser of its own."""

    def __init__(self, profile: Path) -> None:
        self._own = Browser(profile)
        super().__init__(self._own, self._own.session())

    def close(self) -> None:
        self._own.close()
