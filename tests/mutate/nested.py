"""pytest within a test: forked from this process, so that a mutant of the plugin is in force there too (and fast)."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

import pytest

from teachkv.mutate import restart

OWN = ("toy", "test", "conftest", "_teachkv_mutate_overlay")


def run_nested(root: Path, args: list[str], environment: dict[str, str], timeout: float) -> tuple[int, str]:
    """The exit code and the output of `pytest ARGS` run in `root`. Its process group is killed after `timeout`."""
    output = root / ".output"
    pid = os.fork()
    if pid == 0:
        _child(root, args, environment, output)
    deadline = time.monotonic() + timeout
    while not (found := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pytest.fail(f"no end after {timeout} s: {output.read_text(errors='replace')}")
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1]), output.read_text(errors="replace")


def _child(root: Path, args: list[str], environment: dict[str, str], output: Path) -> NoReturn:
    code = 70
    try:
        os.setsid()
        os.chdir(root)
        os.environ.clear()
        os.environ.update(environment)
        _redirect(output)
        for name in [name for name in sys.modules if name.startswith(OWN)]:
            del sys.modules[name]
        sys.settrace(None)
        sys.path.insert(0, str(root))
        restart.SYS_PATH.insert(0, str(root))
        sys.argv[:] = ["pytest", *args]
        code = int(pytest.main(args))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(output: Path) -> None:
    sink, source = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((source, 0), (sink, 1), (sink, 2)):
        os.dup2(descriptor, target)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the life of this process
    sys.stdout = open(1, "w", closefd=False, buffering=1)  # noqa: SIM115
    sys.stderr = sys.stdout
