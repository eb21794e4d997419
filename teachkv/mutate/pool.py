"""Children side by side: one message each, a clock each, and nothing of them left behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from teachkv.mutate.task import Answer, Task

TICK = 0.05  # seconds between looks at children that died without closing their pipe


@dataclass
class Result:
    """`status` is done, timeout or crash; only done has an answer. `log` is the end of what the child printed."""

    task: Task
    status: str
    answer: Answer | None = None
    seconds: float = 0.0
    log: str = ""


@dataclass
class _Child:
    task: Task
    pid: int
    pipe: int
    folder: Path
    started: float
    raw: bytearray = field(default_factory=bytearray)


class Pool:
    """`launch(task, write_end, folder)` starts a child as leader of its own process group and returns its pid."""

    def __init__(self, jobs: int, folder: Path, launch: Callable[[Task, int, Path], int]) -> None:
        self._jobs, self._folder, self._launch = jobs, folder, launch
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._dying: list[int] = []
        self._count = 0

    def run(self, tasks: list[Task]) -> Iterator[Result]:
        """Results in the order in which children finish. The list is used up; the caller may add to it meanwhile.

        Leaving the loop early kills the rest.
        """
        try:
            while tasks or self._children:
                while tasks and len(self._children) < self._jobs:
                    self._start(tasks.pop(0))
                yield from self._wait()
        finally:
            for child in list(self._children.values()):
                self._end(child, "crash")
            self._bury(wait=True)

    def _start(self, task: Task) -> None:
        self._bury()
        self._count += 1
        folder = self._folder / str(self._count)  # made by a child that needs it; its log is `<folder>.log`
        task.nonce = os.urandom(8).hex()
        read, write = os.pipe()
        pid = self._launch(task, write, folder)
        os.close(write)
        os.set_blocking(read, False)
        self._children[read] = _Child(task, pid, read, folder, time.monotonic())
        self._selector.register(read, selectors.EVENT_READ)

    def _wait(self) -> Iterator[Result]:
        for key, _ in self._selector.select(TICK):
            child = self._children[key.fd]
            piece = _read(key.fd)
            child.raw += piece
            answer = Answer.decode(bytes(child.raw))
            # guard[own-message]: code under test can find the pipe; only the child's own answer counts
            # mutant[own-message/any-nonce]:
            #   - if answer is not None and answer.nonce == child.task.nonce:
            #   + if answer is not None:
            if answer is not None and answer.nonce == child.task.nonce:
                yield self._end(child, "done", answer)
            elif not piece:
                yield self._end(child, "crash")
        now = time.monotonic()
        for child in list(self._children.values()):
            if now - child.started > child.task.budget:
                yield self._end(child, "timeout")
            elif now - child.started > TICK and _is_dead(child.pid) and not _pending(child.pipe):
                yield self._end(child, "crash")

    def _end(self, child: _Child, status: str, answer: Answer | None = None) -> Result:
        """Kills what is left of the child's group (grandchildren too), then collects the child."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # guard[whole-group]: what a test started goes with it
            # mutant[whole-group/child-only]:
            #   - os.killpg(child.pid, signal.SIGKILL)
            #   + os.kill(child.pid, signal.SIGKILL)
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        code = 0
        if status == "done":
            self._dying.append(child.pid)
        else:
            code = _collect(child.pid)
        if status == "crash" and code == -signal.SIGXCPU:
            status = "timeout"
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._children[child.pipe]
        tail = _take_log(child.folder, keep=answer is None or answer.stage != "run")
        if status == "crash":
            tail = f"{_how(code)}\n{tail}".strip()
        if child.folder.exists():
            shutil.rmtree(child.folder, ignore_errors=True)
        return Result(child.task, status, answer, time.monotonic() - child.started, tail)

    def _bury(self, wait: bool = False) -> None:
        """Collects children that were killed after their answer; the next one need not wait for their end."""
        self._dying = [pid for pid in self._dying if os.waitpid(pid, 0 if wait else os.WNOHANG)[0] == 0]


def _take_log(folder: Path, keep: bool) -> str:
    """The end of what a child printed; the file goes."""
    log = Path(f"{folder}.log")
    if not log.exists():
        return ""
    tail = log.read_text(errors="replace")[-2000:] if keep else ""
    log.unlink()
    return tail


def _read(descriptor: int) -> bytes:
    pieces = []
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def _pending(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _is_dead(pid: int) -> bool:
    """Dead but not yet collected, so that its number cannot be another process's. Without waitid the clock decides."""
    if not hasattr(os, "waitid"):
        return False
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None


def _collect(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code} and no answer"
