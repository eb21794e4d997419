"""Why a mutant survived: not reached, no different result, a difference nobody asserts, or another guard's cover."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from teachkv.mutate.cards import Mutant
from teachkv.mutate.errors import CardError
from teachkv.mutate.judge import TestOutcome
from teachkv.mutate.swap import Plan
from teachkv.mutate.task import Task
from teachkv.mutate.verdicts import MutantResult, Verdict
from teachkv.mutate.workbench import Workbench

TESTS = 20  # tests per survivor that are watched, the fastest first
SLOWER = 20.0  # times a test's own time that watching may take


def explain_survivors(bench: Workbench, results: list[MutantResult]) -> None:
    """Fills in `explanation` of every mutant that nothing killed."""
    mutants = {mutant.id: mutant for mutant in bench.mutants}
    for result in results:
        if result.decoy or result.verdict not in (Verdict.SURVIVED, Verdict.UNEXERCISED):
            continue
        mutant = mutants[result.id]
        span = bench.spans[mutant.id]
        if not result.reached_by:
            place = span.path.name
            result.explanation = f"not reached: no passing test runs line {span.first} of {place}"
            continue
        result.explanation = compare_results(bench, mutant)
        if bench.option.mutate_order == 2:
            result.explanation += "".join(f"\n{line}" for line in _covered_by(bench, mutant))


def compare_results(bench: Workbench, mutant: Mutant) -> str:
    """Runs the reaching tests with and without the mutant and compares what the changed function gave back."""
    plan = bench.plans[mutant.id]
    if isinstance(plan, SyntaxError) or not plan.places:
        return "reached, but the change is not inside a function, so its results cannot be compared"
    reaching = bench.baseline.reaching(mutant.id, bench.spans[mutant.id])
    nodeids = sorted(reaching, key=lambda nodeid: bench.baseline.tests[nodeid].seconds)[:TESTS]
    tasks = [_watch(bench, mutant, nodeids, noop) for noop in (True, False)]
    answers = {done.task.noop: done.answer for done in bench.pool.run(list(tasks)) if done.answer}
    if len(answers) < 2:
        return "reached, but watching the changed function took too long"
    calls = 0
    for before, after in zip(answers[True].tests, answers[False].tests, strict=False):
        calls += len(before.seen)
        difference = _difference(before, after)
        if difference:
            return difference
    return f"reached: {counted(calls, 'call')} in {counted(len(nodeids), 'test')}, the same result each time"


def counted(count: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _watch(bench: Workbench, mutant: Mutant, nodeids: list[str], noop: bool) -> Task:
    task = bench.task(mutant, nodeids, noop=noop)
    assert task.plan is not None
    task.observe = [list(place) for place in task.plan.places]
    task.budget *= SLOWER
    return task


def _difference(before: TestOutcome, after: TestOutcome) -> str:
    for number, (old, new) in enumerate(zip_longest(before.seen, after.seen), 1):
        if old is None or new is None:
            counts = f"{len(before.seen)} became {len(after.seen)}"
            return f"reached, and the number of calls differed in {before.nodeid}: {counts}; no assertion looks"
        if old[0] != new[0]:
            text = f"reached, and the result differed in {before.nodeid}, call {number}"
            values = f"{old[1]} became {new[1]}" if old[1] != new[1] else "an argument was left otherwise"
            return f"{text}: {values}; no assertion looks"
    return ""


def _covered_by(bench: Workbench, mutant: Mutant) -> Iterator[str]:
    """Other guards without which the survivor is killed: each pair against the other mutant alone."""
    mine = set(bench.baseline.reaching(mutant.id, bench.spans[mutant.id]))
    tasks: list[Task] = []
    for other in _one_per_guard(bench, mutant):
        shared = [n for n in bench.baseline.reaching(other.id, bench.spans[other.id]) if n in mine]
        try:
            plan = bench.plan_texts(bench.registry.rewrite([mutant, other]))
        except (CardError, SyntaxError):
            continue  # they change the same lines
        if shared:
            alone = bench.task(other, shared)
            tasks += [alone, Task(other.id, shared, alone.budget, plan, cold=bool(plan.cold))]
    outcomes: dict[str, dict[bool, set[str]]] = {}
    for done in bench.pool.run(list(tasks)):
        failed = {test.nodeid for test in done.answer.tests if test.failed} if done.answer else set()
        outcomes.setdefault(done.task.id, {})[done.task.plan is bench.plans[done.task.id]] = failed
    for other_id, failed_by in outcomes.items():
        both = failed_by.get(False, set()) - failed_by.get(True, set())
        if both:
            guard = other_id.partition("/")[0]
            yield f"redundant with guard {guard}: without both ({other_id}) {sorted(both)[0]} goes red"


def _one_per_guard(bench: Workbench, mutant: Mutant) -> list[Mutant]:
    chosen: dict[str, Mutant] = {}
    for other in bench.mutants:
        usable = not other.words.decoy and not other.automatic and isinstance(bench.plans[other.id], Plan)
        if other.guard != mutant.guard and usable and (other.guard not in chosen or other.name == "removed"):
            chosen[other.guard] = other
    return list(chosen.values())
