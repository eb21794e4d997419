"""Judging a student's file: green on the real code, blind to decoys, and red by its own assertion under each mutant."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from teachkv.mutate.baseline import run_baseline
from teachkv.mutate.cards import Mutant
from teachkv.mutate.exercise import Exercise
from teachkv.mutate.explain import compare_results
from teachkv.mutate.judge import ASSERTION, TestOutcome
from teachkv.mutate.lanes import current_lane
from teachkv.mutate.needed import Needed
from teachkv.mutate.registry import Registry, relative
from teachkv.mutate.swap import RanBefore
from teachkv.mutate.verdicts import SURVIVORS
from teachkv.mutate.workbench import Workbench


@dataclass
class Attempt:
    """What came of one exercise: `lines` for the student, `mutants` (id -> verdict) for the teacher."""

    exercise: str
    solved: bool = False
    code: int = SURVIVORS
    points: int = 0
    of: int = 0
    mutants: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)


class Practice:
    """Takes the collected tests of one student's file to an attempt."""

    def __init__(self, session: pytest.Session, registry: Registry, ran: RanBefore, exercise: Exercise) -> None:
        self.exercise, self.registry = exercise, registry
        self.items = [item for item in session.items if item.path == exercise.file]
        mutants = [registry.mutant(name) for name in (*exercise.decoys, *exercise.mutants)]
        needed = Needed(self.items, registry, {}, session.config.option)
        self.bench = Workbench(session, registry, mutants, current_lane(), ran, needed)
        self.attempt = Attempt(exercise.name, of=sum(exercise.worth(name) for name in exercise.mutants))

    def run(self) -> Attempt:
        with self.bench:
            self.attempt.solved = self._green() and (self._hunt() if self.exercise.kind == "hunt" else self._kills())
        if self.attempt.solved:
            self.attempt.code, self.attempt.points = 0, self.attempt.of
        return self.attempt

    def _say(self, *lines: str) -> None:
        self.attempt.lines += lines

    def _green(self) -> bool:
        """Whether there is a test and it passes on the real code."""
        name = self.exercise.file.name
        if not self.items:
            self._say(f"no test in {name} yet: write a function whose name starts with test_")
            return False
        self.bench.baseline = baseline = run_baseline(
            self.bench.pool, self.items, {item.nodeid: self.bench.spans for item in self.items}
        )
        if baseline.red:
            self.attempt.code = 1
            self._say("your test is red on the real code; the code is right, so the test must change:")
            self._say(*(f"  {line}" for line in baseline.red))
            return False
        if not any(baseline.passed(item.nodeid) for item in self.items):
            self._say(f"no test of {name} ran to its end: all are skipped or expected to fail")
            return False
        return True

    def _kills(self) -> bool:
        decoys = [self._decoy(self.registry.mutant(name)) for name in self.exercise.decoys]
        kills = [self._mutant(self.registry.mutant(name)) for name in self.exercise.mutants]
        return all(decoys) and all(kills)

    def _outcomes(self, mutant: Mutant) -> list[TestOutcome] | None:
        nodeids = [item.nodeid for item in self.items if self.bench.baseline.passed(item.nodeid)]
        (done,) = self.bench.pool.run([self.bench.task(mutant, nodeids)])
        return done.answer.tests if done.answer is not None and done.answer.stage == "run" else None

    def _decoy(self, mutant: Mutant) -> bool:
        outcomes = self._outcomes(mutant)
        red = [test for test in outcomes or [] if test.failed]
        if outcomes is not None and not red:
            return True
        self._say(
            f"{mutant.id}: the code was only spelled otherwise, and your test went red.",
            "  Your test pins the spelling, not the behaviour:",
            *(f"  {test.nodeid.rpartition('::')[2]}: {test.text}" for test in red),
        )
        return False

    def _mutant(self, mutant: Mutant) -> bool:
        """Whether an assertion of the student's own file went red; if not, the next step of the ladder is told."""
        outcomes = self._outcomes(mutant)
        kill = next((test for test in outcomes or [] if test.outcome == ASSERTION and test.own), None)
        if kill is not None:
            self.attempt.mutants[mutant.id] = "killed"
            self._say(f"{mutant.id}: killed. {kill.text}")
            return True
        self.attempt.mutants[mutant.id] = "alive"
        self._say(f"{mutant.id}: still alive.", f"  {self._ladder(mutant, outcomes)}")
        return False

    def _ladder(self, mutant: Mutant, outcomes: list[TestOutcome] | None) -> str:
        if outcomes is None:
            return "under it your test did not come to an end (a crash, or more than its time)"
        failed = next((test for test in outcomes if test.failed), None)
        if failed is not None and failed.outcome == ASSERTION:
            return f"the code's own check went red, not an assertion of yours: {failed.text}"
        if failed is not None:
            return f"your test broke before its assertion could speak: {failed.text}"
        span = self.bench.spans[mutant.id]
        if not self.bench.baseline.reaching(mutant.id, span):
            place = relative(self.registry.root, span.path)
            return f"not reached: no test of yours runs line {span.first} of {place}"
        return compare_results(self.bench, mutant)

    def _hunt(self) -> bool:
        """Shows the failing observation; compares the student's ANSWER with the place of the missing guard."""
        mutant = self.registry.mutant(self.exercise.mutants[0])
        red = [test for test in self._outcomes(mutant) or [] if test.failed]
        self._say(*(f"with one guard taken away: {test.nodeid.rpartition('::')[2]}: {test.text}" for test in red))
        answer = getattr(getattr(self.items[0], "module", None), "ANSWER", None)
        if not answer:
            self._say(f'which line is it? Write ANSWER = ("path/from/the/root.py", line) in {self.exercise.file.name}')
            return False
        span, guard = self.bench.spans[mutant.id], self.registry.guards[mutant.guard]
        file, line = answer
        first = min(span.first, guard.line) if guard.path == span.path else span.first
        hit: bool = span.path.match(str(file)) and first <= line <= span.last
        self.attempt.mutants[mutant.id] = "found" if hit else "not found"
        self._say(f"found: {guard.id}, {guard.why}" if hit else f"not line {line} of {file}")
        return hit
