"""The child's side: apply, run already-collected items, answer once, leave by `os._exit`."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from teachkv.mutate import isolate
from teachkv.mutate.judge import Recorder, TestOutcome
from teachkv.mutate.observe import Observer
from teachkv.mutate.overlay import OverlayFinder
from teachkv.mutate.reach import ReachTracer
from teachkv.mutate.settings import read_settings
from teachkv.mutate.standins import Opened, write_stand_ins
from teachkv.mutate.swap import Plan, apply_swaps
from teachkv.mutate.task import Answer, Task, send


class Runner:
    """Runs items of a session one after the other through pytest's own protocol, so that every plugin takes part."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        self._tracer: ReachTracer | Observer | None = None
        self._items = {item.nodeid: item for item in session.items}
        self._recorder = Recorder(read_settings(session.config.rootpath).packages)
        session.config.pluginmanager.register(self._recorder)
        self._quiet = isolate.Quiet(session.config)
        self._start = Path.cwd()

    def close(self) -> None:
        """The session as it was, for a process that goes on."""
        self._quiet.restore()
        self.session.config.pluginmanager.unregister(self._recorder)

    def run(self, task: Task, tracer: ReachTracer | Observer | None) -> list[TestOutcome]:
        """The outcomes in order; nothing runs after the first outcome among the task's `stop_at`."""
        self._tracer = tracer
        self._recorder.tracer = tracer if isinstance(tracer, ReachTracer) else None
        outcomes: list[TestOutcome] = []
        items = [self._items[nodeid] for nodeid in task.nodeids]
        environment = dict(os.environ) if len(items) > 1 else {}
        for item, after in zip(items, [*items[1:], None], strict=True):
            if outcomes:
                self._restore(environment)
            outcomes.append(self._run_one(item, after))
            if outcomes[-1].outcome in task.stop_at:
                break
        return outcomes

    def _run_one(self, item: pytest.Item, after: pytest.Item | None) -> TestOutcome:
        outcome = self._recorder.current = TestOutcome(item.nodeid)
        begun = time.process_time()
        if self._tracer is not None:
            self._tracer.start()
        try:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
        finally:
            outcome.cpu = time.process_time() - begun
            if self._tracer is not None:
                self._tracer.stop()
                if isinstance(self._tracer, Observer):
                    outcome.seen = self._tracer.take()
                else:
                    outcome.reached = tuple(sorted(self._tracer.take()))
                    outcome.shared = tuple(sorted({*outcome.shared, *self._tracer.read}))
        return outcome

    def _restore(self, environment: dict[str, str]) -> None:
        """A test that changed the folder or the environment must not decide the next one's verdict."""
        os.chdir(self._start)
        # guard[environment-restored]: one test's `os.environ.clear()` must not decide the next one's verdict
        # mutant[environment-restored/kept]:
        #   - if dict(os.environ) != environment:
        #   + if not environment:
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)


def run_forked(
    runner: Runner, task: Task, tracer: ReachTracer | None, pipe: int, folder: Path, tie: Callable[[], object]
) -> NoReturn:
    """Called right after the fork, in the child. Whatever happens, the parent's stack is never returned to."""
    try:
        os.setsid()
        tie()
        isolate.redirect(Path(f"{folder}.log"))
        isolate.limit(task.budget, task.memory)
        isolate.seed()
        send(pipe, answer_for(runner, task, tracer, folder))
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        os._exit(70)
    os._exit(0)


def answer_for(runner: Runner, task: Task, tracer: ReachTracer | None, folder: Path) -> Answer:
    """Applies the task's plan (or, as a control, the same code once more) and runs its tests."""
    config = runner.session.config
    isolate.own_temp(config, folder)
    plan: Plan | None = task.plan
    overlay = None
    applied = True
    opened = Opened([])
    if plan is not None:
        swaps = plan.undo if task.noop else plan.swaps
        applied = apply_swaps(swaps) > 0
        settings = read_settings(config.rootpath)
        environment, written = write_stand_ins(plan.originals if task.noop else plan.texts, folder, settings)
        os.environ.update(environment)
        opened = Opened(written)
        if plan.late:
            overlay = OverlayFinder({} if task.noop else plan.late)
            overlay.install()
    watcher: ReachTracer | Observer | None = tracer if task.trace else None
    if task.observe:
        watcher = Observer({(file, name) for file, name in task.observe})
    tests = runner.run(task, watcher)
    if overlay is not None:
        applied = applied or task.noop or bool(overlay.served)
    # guard[kernel-served]: a loader that does not know the variable would run the real kernel and call it a survivor
    # mutant[kernel-served/not-asked]:
    #   - applied = applied or bool(opened.seen)
    #   + applied = applied or plan is not None
    applied = applied or bool(opened.seen)
    return Answer(task.id, task.nonce, applied=applied, tests=tests)
