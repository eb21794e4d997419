"""The tests without a mutant: twice, once module by module, once with every claimed killer alone.

Tracing takes several times a test's own time, and a kill by a claimed killer proves that the killer gets there. So
the first pass traces only those modules whose way through the code decides which tests run; the rest is traced when
a survivor asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import floor, log2

import pytest

from teachkv.mutate.judge import PASSED, SKIPPED, TestOutcome
from teachkv.mutate.place import Span
from teachkv.mutate.pool import Pool, Result
from teachkv.mutate.task import Task

BUDGET = 600.0  # seconds for one module's tests, when nothing is known of them yet
SHORT = 0.01  # seconds; below this no test is shorter than another


@dataclass
class Baseline:
    """Per test: the outcome, its time, and which spans it reaches, of the mutants that `traced` says."""

    tests: dict[str, TestOutcome] = field(default_factory=dict)
    traced: dict[str, set[str]] = field(default_factory=dict)
    quarantined: list[str] = field(default_factory=list)
    red: list[str] = field(default_factory=list)

    def passed(self, nodeid: str) -> bool:
        test = self.tests.get(nodeid)
        return test is not None and test.outcome == PASSED and nodeid not in self.quarantined

    def why_not(self, nodeid: str) -> str:
        """Why a test cannot be a killer."""
        if nodeid in self.quarantined:
            return "differs from run to run without a mutant"
        return f"is {self.tests[nodeid].outcome if nodeid in self.tests else 'unknown'} without a mutant"

    def learn(self, more: Baseline) -> None:
        """Takes over tests that are new here, and of known ones what tracing them said."""
        for nodeid, test in more.tests.items():
            known = self.tests.setdefault(nodeid, test)
            known.reached = tuple(sorted({*known.reached, *test.reached}))
            self.traced.setdefault(nodeid, set()).update(more.traced.get(nodeid, ()))

    def seconds(self, nodeids: list[str]) -> float:
        return sum(self.tests[nodeid].seconds for nodeid in nodeids if nodeid in self.tests)

    def shortest_first(self, nodeids: list[str]) -> list[str]:
        """By time, so that a kill need not wait for a long test; those alike within a factor of two keep their order.

        Their fixtures of a wider scope then serve several tests of a module, as in any other run.
        """
        return sorted(nodeids, key=lambda nodeid: floor(log2(max(self.seconds([nodeid]), SHORT))))

    def reaching(self, mutant_id: str, span: Span) -> list[str]:
        """Passing tests that run a line of the span; for a span that only imports run, those that enter its file."""
        passing = [test for test in self.tests.values() if self.passed(test.nodeid)]
        found = [test.nodeid for test in passing if mutant_id in test.reached]
        return found or [test.nodeid for test in passing if f"import:{mutant_id}" in test.reached]


def by_module(items: list[pytest.Item]) -> Iterator[list[str]]:
    """Node ids of each test module, in collection order."""
    groups: dict[str, list[str]] = {}
    for item in items:
        groups.setdefault(item.nodeid.partition("::")[0], []).append(item.nodeid)
    yield from groups.values()


def run_baseline(pool: Pool, items: list[pytest.Item], to_trace: Mapping[str, Iterable[str]]) -> Baseline:
    """First pass. `to_trace` says for which tests which mutants' spans are watched; it holds for the whole module.

    What fails is run once more: a test that fails twice is red, once is quarantined.
    """
    baseline = Baseline()
    groups = list(by_module(items))
    tasks = [Task("baseline", group, BUDGET) for group in groups]
    for task in tasks:
        wanted = {name for nodeid in task.nodeids for name in to_trace.get(nodeid, ())}
        task.trace = tuple(sorted(wanted))
        baseline.traced.update({nodeid: set(wanted) for nodeid in task.nodeids})
    for result in pool.run(tasks):
        _take(baseline, result)
    failed = [group for group in groups if any(_is_red(baseline, nodeid) for nodeid in group)]
    again = Baseline()
    for result in pool.run([Task("baseline", group, BUDGET) for group in failed]):
        _take(again, result)
    for nodeid, test in again.tests.items():
        if _is_red(baseline, nodeid) and _is_red(again, nodeid):
            baseline.red.append(f"{nodeid}: {test.text}")
        elif test.outcome != baseline.tests[nodeid].outcome:
            baseline.quarantined.append(nodeid)
    return baseline


def compare(baseline: Baseline, result: Result) -> list[str]:
    """Second pass: the tests of a child that came out otherwise than in the first."""
    second = Baseline()
    _take(second, result)
    differing = []
    for nodeid, test in second.tests.items():
        first = baseline.tests[nodeid]
        first.seconds, first.cpu = max(first.seconds, test.seconds), test.cpu  # this time nothing was traced
        if test.outcome != first.outcome:
            differing.append(nodeid)
    return differing


def _is_red(baseline: Baseline, nodeid: str) -> bool:
    return baseline.tests[nodeid].outcome not in (PASSED, SKIPPED)


def _take(baseline: Baseline, result: Result) -> None:
    """A child that gave no answer makes every one of its tests fail, with the reason."""
    if result.answer is None or result.answer.stage == "collect":
        for nodeid in result.task.nodeids:
            baseline.tests[nodeid] = TestOutcome(nodeid, "setup", f"{result.status}: {result.log[:300]}")
        return
    carried: set[str] = set()
    for test in result.answer.tests:
        # A fixture of a wider scope runs for the first test and serves the later ones of the module.
        carried |= set(test.shared)
        test.reached = tuple(sorted(carried | set(test.reached)))
        baseline.tests[test.nodeid] = test
