"""One run: baseline, controls, mutants, verdicts. The parent only plans and reads answers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from teachkv.mutate.baseline import compare, run_baseline
from teachkv.mutate.canary import canary_tasks, quick_killers
from teachkv.mutate.cards import Mutant
from teachkv.mutate.decide import Decider
from teachkv.mutate.explain import explain_survivors
from teachkv.mutate.judge import PASSED
from teachkv.mutate.needed import Needed
from teachkv.mutate.pool import Result
from teachkv.mutate.registry import Registry
from teachkv.mutate.swap import RanBefore
from teachkv.mutate.task import Task
from teachkv.mutate.verdicts import Controls, MutantResult
from teachkv.mutate.workbench import Workbench

SLOW = 2.0  # seconds of CPU that a claimed killer may take without being named
FIRST_START = 120.0  # seconds more for the first fresh interpreter, which may have to compile every module


class Campaign(Workbench):
    """Takes the mutants of a workbench to their verdicts. `results` grows."""

    def __init__(
        self,
        session: pytest.Session,
        registry: Registry,
        mutants: list[Mutant],
        lane: str,
        ran: RanBefore,
        needed: Needed,
    ) -> None:
        super().__init__(session, registry, mutants, lane, ran, needed)
        self.controls = Controls()
        self.results: list[MutantResult] = []
        self.mutant_seconds = 0.0

    def run(self) -> None:
        """The whole run. A red suite stops it before the first mutant: `baseline.red` says so."""
        self.progress(f"baseline of {len(self.items)} tests, ")
        self.baseline = run_baseline(self.pool, self.items, self.needed.to_trace(self.mutants))
        self.controls.quarantined += self.baseline.quarantined
        self.controls.baseline = len(self.baseline.tests)
        if self.baseline.red:
            return
        self.progress("again with no-ops, ")
        self._noop()
        self._name_slow_killers()
        self._canary()
        self.progress(f"{len(self.mutants)} mutants: ")
        begun = time.monotonic()
        for result in Decider(self).verdicts():
            self.results.append(result)
            self.progress("." if result.holds(self.option.mutate_strict) else str(result.verdict)[0].upper())
            self.mutant_seconds = time.monotonic() - begun
        self.progress("\n")
        self.controls.baseline = len(self.baseline.tests)
        explain_survivors(self, self.results)

    def _noop(self) -> None:
        """Second baseline pass: each claimed killer alone, its functions swapped for the same code; then the rest."""
        tasks = list(self._noop_tasks())
        claimed = {nodeid for task in tasks for nodeid in task.nodeids}
        rest: dict[str, list[str]] = {}
        for nodeid in self.baseline.tests:
            if nodeid not in claimed:
                rest.setdefault(nodeid.partition("::")[0], []).append(nodeid)
        tasks += [Task("baseline", nodeids, 600.0) for nodeids in rest.values()]
        queue, again = sorted(tasks, key=self.shortness), set()
        for result in self.pool.run(queue):
            if result.status == "timeout" and result.task.serial not in again:  # as for a mutant: a busy machine
                again.add(result.task.serial)
                result.task.budget *= 3
                queue.append(result.task)
            elif result.task.plan is None:
                self._quarantine(compare(self.baseline, result))
            else:
                self.controls.noop += 1
                self._check_noop(result)

    def _noop_tasks(self) -> Iterator[Task]:
        seen: set[tuple[str, ...]] = set()
        cold_done = False
        for mutant in self.mutants:
            plan = self.plans[mutant.id]
            for claim in self.claims.get(mutant.id, []):
                nodeids = [item.nodeid for item in claim.items if self.baseline.passed(item.nodeid)]
                first = tuple(nodeids) not in seen
                if not nodeids or isinstance(plan, SyntaxError):
                    continue
                if not plan.cold and first:
                    seen.add(tuple(nodeids))
                    yield self.task(mutant, nodeids, noop=True)
                elif plan.cold and not cold_done:
                    cold_done = True
                    first_cold = self.task(mutant, nodeids, noop=True)
                    first_cold.budget += FIRST_START
                    yield first_cold

    def _check_noop(self, result: Result) -> None:
        if result.answer is None or result.answer.stage == "collect":
            self.controls.failed.append(f"no-op of {result.task.id}: {result.status} {result.log[:300]}")
        elif not result.answer.applied:
            self.controls.failed.append(f"no-op of {result.task.id} was not applied")
        else:
            if result.task.cold:
                own = self.baseline.seconds(result.task.nodeids)
                self.cold_start = max(self.cold_start, result.seconds - own)
            changed = [test for test in result.answer.tests if test.outcome != PASSED]
            self.controls.failed += [f"no-op: {t.nodeid} alone, without a mutant: {t.text}" for t in changed]
            compare(self.baseline, result)

    def _name_slow_killers(self) -> None:
        """A killer runs four times in each run: one that takes long should have a smaller sibling in its place."""
        for claim in {claim.name: claim for claims in self.claims.values() for claim in claims}.values():
            cpu = sum(
                self.baseline.tests[item.nodeid].cpu for item in claim.items if item.nodeid in self.baseline.tests
            )
            if cpu > SLOW:
                self.controls.slow.append(f"{claim.name}: {cpu:.1f} s")

    def _quarantine(self, nodeids: list[str]) -> None:
        fresh = [nodeid for nodeid in nodeids if nodeid not in self.baseline.quarantined]
        self.controls.quarantined += fresh
        self.baseline.quarantined += fresh

    def _canary(self) -> None:
        """A failure planted where a test certainly passes by must be seen as one, in each way of applying."""
        self.trace(quick_killers(self), [mutant.id for mutant in self.mutants])
        for how, tasks in canary_tasks(self):
            killed = ""
            for result in self.pool.run(tasks):
                if result.answer and (result.answer.stage == "collect" or any(t.failed for t in result.answer.tests)):
                    killed = result.task.nodeids[0]
                    break
            if killed:
                self.controls.canary = f"{self.controls.canary}, {how}".lstrip(", ")
            else:
                self.controls.failed.append(f"the {how} canary survived {len(tasks)} tests that pass its place")
