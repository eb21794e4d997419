"""A child's own corner: session, output, temp folder, limits, seeds."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MEMORY = 4 << 30  # bytes a child may take beyond what it starts with
FILE_SIZE = 1 << 30  # bytes: an endless log must not fill the disk


def death_signal() -> Callable[[], object]:
    """A call that asks Linux to kill this process when its parent dies; elsewhere a call that does nothing."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(1, signal.SIGKILL)


def redirect(log: Path) -> None:
    """Standard input is empty, both outputs go to the log: nothing a test prints can fill a pipe."""
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    source = os.open(os.devnull, os.O_RDONLY)
    os.dup2(source, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    os.close(source)


def address_space() -> int | None:
    """Bytes of this process's address space; None where only other ways than Linux's could tell."""
    if not sys.platform.startswith("linux"):
        return None
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def limit(seconds: float, memory: int | None) -> None:
    """Limits on CPU time, memory and file size. The CPU limit is a second net below the parent's clock.

    `memory` is the address space in bytes that the child starts with. With None it is free: sanitizers reserve
    terabytes of it.
    """
    cpu = int(seconds) + 2
    _lower(resource.RLIMIT_CPU, cpu)
    _lower(resource.RLIMIT_FSIZE, FILE_SIZE)
    if memory is not None:
        _lower(resource.RLIMIT_AS, memory + MEMORY)


def _lower(what: int, value: int) -> None:
    hard = resource.getrlimit(what)[1]
    if hard == resource.RLIM_INFINITY or value < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (value, hard))


def seed() -> None:
    """The same random numbers in every child."""
    random.seed(0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(0)
    hypothesis = sys.modules.get("hypothesis.core")
    if hypothesis is not None:
        hypothesis.global_force_seed = 0  # type: ignore[attr-defined]


def own_temp(config: pytest.Config, basetemp: Path) -> None:
    """An own base for `tmp_path`; the folder is made by the first test that asks for one."""
    factory: Any = getattr(config, "_tmp_path_factory", None)
    if factory is not None:
        factory._given_basetemp, factory._basetemp = basetemp, None


class Quiet:
    """No terminal, no capture to a file that siblings share, no traceback text: what a child needs before any test.

    The parent, which runs no test, takes this upon itself before it forks, so that no child spends time on it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._manager: Any = config.pluginmanager
        self._reporter = self._manager.getplugin("terminalreporter")
        if self._reporter is not None:
            self._manager.unregister(self._reporter)
        self._patch = pytest.MonkeyPatch()
        capture = self._manager.getplugin("capturemanager")
        if capture is not None:
            # The patch keeps the real one: closing its files in a child would be a ResourceWarning in some test.
            self._patch.setattr(capture, "_global_capturing", None)
            self._patch.setattr(capture, "_method", "no")
            capture.start_global_capturing()
        for kind in (pytest.Item, pytest.Function):
            self._patch.setattr(kind, "repr_failure", _no_traceback)
        self._patch.setattr(pytest.Item, "_repr_failure_py", _no_traceback)

    def restore(self) -> None:
        """Everything as it was: the parent has a report to print."""
        self._patch.undo()
        if self._reporter is not None:
            self._manager.register(self._reporter, "terminalreporter")


def _no_traceback(self: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
    return excinfo.typename
