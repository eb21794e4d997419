"""What every part of a run works with: plans, places, known tests, the pool of children, and how long they may take."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Self

import pytest

from teachkv.mutate.baseline import Baseline, run_baseline
from teachkv.mutate.cards import Mutant
from teachkv.mutate.claims import Claim, find_claims
from teachkv.mutate.launch import Launcher
from teachkv.mutate.needed import Needed
from teachkv.mutate.place import Span
from teachkv.mutate.pool import Pool
from teachkv.mutate.registry import Registry
from teachkv.mutate.swap import LiveFunctions, Plan, RanBefore, make_plan
from teachkv.mutate.task import Task

FLOOR = 0.3  # seconds that any child is thought to need besides its tests
COLD_START = 1.5  # and a fresh interpreter besides that, or what it was seen to take; times the timeout factor


class Workbench:
    """`mutants` of one lane and the tests that may take part; a context that owns a temporary folder."""

    def __init__(
        self,
        session: pytest.Session,
        registry: Registry,
        mutants: list[Mutant],
        lane: str,
        ran: RanBefore,
        needed: Needed,
    ) -> None:
        self.session, self.registry, self.mutants, self.lane = session, registry, mutants, lane
        self.option = session.config.option
        self.needed = needed
        self.items = needed.at_first(mutants)
        self.claims: dict[str, list[Claim]] = find_claims(self.items)
        self.spans: dict[str, Span] = {mutant.id: registry.span(mutant) for mutant in mutants}
        self.baseline = Baseline()
        self.cold_start = COLD_START
        self._live = LiveFunctions(file.path for file in registry.files)
        self._ran = ran
        self.plans: dict[str, Plan | SyntaxError] = {mutant.id: self._plan(mutant) for mutant in mutants}
        self._folder = Path(tempfile.mkdtemp(prefix="mutate-"))
        self._launcher = Launcher(session, self.spans, lane)
        self.spawns_because = self._launcher.why
        self.pool = Pool(self.option.mutate_jobs, self._folder, self._launcher)
        self._reporter = session.config.pluginmanager.getplugin("terminalreporter")

    def widen(self, mutant: Mutant) -> None:
        """More tests for a mutant that no claimed killer killed; one that is red or differs takes no part."""
        items = self.needed.later(mutant, self.baseline.traced)
        if items:
            self.progress(f" [{len(items)} tests for {mutant.id}] ")
            self.trace(items, [mutant.id])

    def trace(self, items: list[pytest.Item], mutants: list[str]) -> None:
        """Runs more tests without a mutant and watches which of them reach these mutants' spans."""
        self.baseline.learn(run_baseline(self.pool, items, {item.nodeid: mutants for item in items}))

    def progress(self, text: str) -> None:
        """Where the run is, on one line: a dot for each mutant that holds, a letter for each that does not."""
        if self._reporter is not None:
            self._reporter.write(text, flush=True)

    def __enter__(self) -> Self:
        self._launcher.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._launcher.__exit__()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _plan(self, mutant: Mutant) -> Plan | SyntaxError:
        try:
            plan = self.plan_texts(self.registry.rewrite(self.registry.with_partner(mutant)))
        except SyntaxError as error:
            return error
        plan.cold = plan.cold or ("its card says cold" if mutant.words.cold else "")
        return plan

    def plan_texts(self, texts: dict[Path, str]) -> Plan:
        """How to apply any rewrite of these files. Raises SyntaxError."""
        originals = {path: self.registry.file(path).text for path in texts}
        return make_plan(texts, originals, self._live, self._ran)

    def task(self, mutant: Mutant, nodeids: list[str], stop_at: tuple[str, ...] = (), noop: bool = False) -> Task:
        """A task for these tests under the mutant, with a budget from their times without it."""
        plan = self.plans[mutant.id]
        assert isinstance(plan, Plan)
        cold = bool(plan.cold)
        return Task(mutant.id, nodeids, self.budget(nodeids, cold), plan, noop, cold=cold, stop_at=stop_at)

    def budget(self, nodeids: list[str], cold: bool = False) -> float:
        """Seconds for a child that runs these tests."""
        start = FLOOR + (self.cold_start if cold or self.spawns_because else 0.0)
        return float(self.option.mutate_timeout_factor) * (start + self.baseline.seconds(nodeids))

    def shortness(self, task: Task) -> float:
        """Sorts the longest first, so that no long one begins when the others are about to end."""
        return -self.baseline.seconds(task.nodeids) - (self.cold_start if task.cold or self.spawns_because else 0.0)
