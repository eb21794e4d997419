"""Starting a child: a fork of this process, or a fresh interpreter under the overlay."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate import isolate, restart
from teachkv.mutate.child import Runner, answer_for, run_forked
from teachkv.mutate.errors import MutateError
from teachkv.mutate.options import without_exercises
from teachkv.mutate.place import Span
from teachkv.mutate.reach import ReachTracer
from teachkv.mutate.settings import read_settings
from teachkv.mutate.standins import Opened, is_kernel, write_stand_ins
from teachkv.mutate.task import Task, send

# The driver: without it libcudart, which Numba loads even for its simulator, has nothing that a fork could break.
UNLIMITED = ("host", "tsan", "gpu")  # sanitizers and device runtimes reserve far more addresses than memory
GPU_LIBRARIES = ("libcuda.so",)


class Launcher:
    """Called by the pool with a task, the writing end of its pipe and its folder; returns the child's pid."""

    def __init__(self, session: pytest.Session, spans: Mapping[str, Span], lane: str) -> None:
        self._session, self._spans, self._lane = session, spans, lane
        self._tie = isolate.death_signal()
        wanted = "spawn" if lane == "gpu" else session.config.option.mutate_isolation
        self.forks, self.why = fork_or_spawn(wanted)
        self._runner: Runner | None = None

    def __enter__(self) -> Launcher:
        """Does before the first fork, once, what every child would have to do."""
        if "numpy" in sys.modules:
            importlib.import_module("numpy.random")
        self._runner = Runner(self._session)
        # What is alive now is never garbage in a child: a collection there must not touch (and so copy) its pages.
        gc.collect()
        gc.freeze()
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close()

    def __call__(self, task: Task, pipe: int, folder: Path) -> int:
        task.memory = None if self._lane in UNLIMITED else isolate.address_space()
        if task.cold or not self.forks:
            return self._spawn(task, pipe, folder)
        assert self._runner is not None, "a launcher is a context"
        tracer = tracer_for(task, self._spans)
        pid = os.fork()
        if pid == 0:
            run_forked(self._runner, task, tracer, pipe, folder, self._tie)
        return pid

    def _spawn(self, task: Task, pipe: int, folder: Path) -> int:
        """pytest in a fresh interpreter, on the same command line with the tests by name."""
        texts = {} if task.plan is None else task.plan.originals if task.noop else task.plan.texts
        folder.mkdir()
        settings = read_settings(self._session.config.rootpath)
        stand_ins, written = write_stand_ins(texts, folder / "kernels", settings)
        texts = {path: text for path, text in texts.items() if not is_kernel(path)}
        more = {"pipe": pipe, "tmp": str(folder / "tmp"), "task": {**task.__dict__, "plan": None}, "kernels": written}
        restart.write_spec(folder / "spec.json", texts, **more)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba"), **stand_ins}
        if environment.pop("PYTHONDONTWRITEBYTECODE", None):
            # Nothing into the packages' folders, as was asked for; but compiling all of them once a run is enough.
            environment["PYTHONPYCACHEPREFIX"] = str(folder.parent / "bytecode")
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        command = [*restart.interpreter(), str(restart.BOOT), str(folder / "spec.json"), *self._arguments(task)]
        os.set_inheritable(pipe, True)
        return os.posix_spawn(sys.executable, command, environment, file_actions=actions, setsid=True)

    def _arguments(self, task: Task) -> list[str]:
        """The user's own arguments, with the files of the tests in place of what was asked for."""
        config = self._session.config
        args = list(config.invocation_params.args)
        for name in config.option.file_or_dir:
            if name in args:
                del args[len(args) - 1 - args[::-1].index(name)]
        files = dict.fromkeys(str(config.rootpath / nodeid.partition("::")[0]) for nodeid in task.nodeids)
        return [*without_exercises(args, config.option), *files]


def fork_or_spawn(wanted: str) -> tuple[bool, str]:
    """Whether to fork, and why not. A second thread or a GPU runtime does not survive a fork."""
    why = _why_no_fork()
    if wanted == "fork" and why:
        raise MutateError(f"--mutate-isolation=fork: {why}; use auto or spawn")
    return (wanted != "spawn" and not why), ("asked for" if wanted == "spawn" else why)


def _why_no_fork() -> str:
    if not hasattr(os, "fork"):
        return "this platform cannot fork"
    if threading.active_count() > 1:
        return f"{threading.active_count()} Python threads are running"
    tasks, maps = Path("/proc/self/task"), Path("/proc/self/maps")
    if tasks.is_dir() and len(list(tasks.iterdir())) > 1:
        return f"{len(list(tasks.iterdir()))} native threads are running"
    if maps.is_file() and any(name in maps.read_text() for name in GPU_LIBRARIES):
        return "a GPU runtime is loaded"
    return ""


def tracer_for(task: Task, spans: Mapping[str, Span]) -> ReachTracer | None:
    """Watches for the spans that the task names."""
    return ReachTracer({name: spans[name] for name in task.trace}) if task.trace else None


def serve(session: pytest.Session, spans: Callable[[], Mapping[str, Span]], spec: dict[str, Any], finder: Any) -> None:
    """The cold child's side: runs the task that boot.py was given and leaves. Returns only on collection errors."""
    if session.testsfailed:
        return
    task = Task(**spec["task"])
    known = {item.nodeid for item in session.items}
    if not known.issuperset(task.nodeids):
        return
    isolate.limit(task.budget, None if task.memory is None else isolate.address_space())
    isolate.seed()
    opened = Opened(spec["kernels"])
    tracer = tracer_for(task, spans()) if task.trace else None
    answer = answer_for(Runner(session), task, tracer, Path(spec["tmp"]))
    answer.applied = bool(finder.served or opened.seen) or not (spec["texts"] or spec["kernels"])
    send(spec["pipe"], answer)
    os._exit(0)
