"""From tasks to verdicts: claimed killers alone, then everything that reaches the span, then slow ones once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from teachkv.mutate.cards import Mutant
from teachkv.mutate.claims import Claim
from teachkv.mutate.judge import ASSERTION, RAISE, SETUP, SKIPPED, TestOutcome
from teachkv.mutate.listing import diff_lines
from teachkv.mutate.pool import Result
from teachkv.mutate.registry import relative
from teachkv.mutate.selection import is_narrowed
from teachkv.mutate.task import KILL, Task
from teachkv.mutate.verdicts import OPEN, MutantResult, Verdict
from teachkv.mutate.workbench import Workbench

KILLS = (Verdict.KILLED, Verdict.KILLED_RAISE)


@dataclass
class Trial:
    """One mutant on its way to a verdict. `waiting` are the names of its tasks that have not come back."""

    mutant: Mutant
    result: MutantResult
    waiting: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    claims: dict[int, tuple[Claim, list[str]]] = field(default_factory=dict)
    tried: bool = False
    widened: bool = False


class Decider:
    """Feeds the pool and yields a result as soon as a mutant's last task is back."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._strict = bool(bench.option.mutate_strict)
        self._stop = (ASSERTION,) if self._strict else KILL
        self._queue: list[Task] = []
        self._owner: dict[int, Trial] = {}
        self._slow: list[Task] = []
        self._retried: set[int] = set()
        self._open: list[Trial] = []

    def verdicts(self) -> Iterator[MutantResult]:
        for mutant in self._bench.mutants:
            yield from self._begin(mutant)
        self._queue.sort(key=self._bench.shortness)
        yield from self._drain()
        yield from self._slow_ones()
        # More tests for what no claimed killer killed: after all else, because their baseline may take long.
        while self._open:
            trial = self._open.pop(0)
            self._bench.widen(trial.mutant)
            trial.result.reached_by = len(self._reaching(trial.mutant))
            yield from self._widen_or_finish(trial)
            yield from self._drain()
            yield from self._slow_ones()

    def _slow_ones(self) -> Iterator[MutantResult]:
        """A timeout counts only when the child had the machine to itself and three times the time."""
        while self._slow:
            task = self._slow.pop(0)
            task.budget *= 3
            self._retried.add(task.serial)
            self._queue.append(task)
            yield from self._drain()

    def _reaching(self, mutant: Mutant) -> list[str]:
        return self._bench.baseline.reaching(mutant.id, self._bench.spans[mutant.id])

    def _drain(self) -> Iterator[MutantResult]:
        for result in self._bench.pool.run(self._queue):
            yield from self._take(result)

    def _begin(self, mutant: Mutant) -> Iterator[MutantResult]:
        bench = self._bench
        plan = bench.plans[mutant.id]
        result = self._blank(mutant, len(self._reaching(mutant)))
        trial = Trial(mutant, result)
        if isinstance(plan, SyntaxError):
            result.verdict, result.text = Verdict.COMPILE_ERROR, str(plan)
            yield result
            return
        result.how = plan.cold or ("fresh interpreter" if bench.spawns_because else "hot")
        for claim in bench.claims.get(mutant.id, []):
            nodeids = [item.nodeid for item in claim.items if bench.baseline.passed(item.nodeid)]
            if not nodeids:
                why = bench.baseline.why_not(claim.items[0].nodeid)
                result.faults.append(f"{claim.name} claims the kill but {why}")
                continue
            task = self._put(trial, bench.task(mutant, nodeids, self._stop))
            trial.claims[task.serial] = (claim, nodeids)
        self._note_missing_claim(trial)
        if not trial.waiting:
            yield from self._widen_or_finish(trial)

    def _blank(self, mutant: Mutant, reached_by: int) -> MutantResult:
        bench, span = self._bench, self._bench.spans[mutant.id]
        claims = bench.claims.get(mutant.id, [])
        return MutantResult(
            mutant.id,
            Verdict.SURVIVED,
            relative(bench.registry.root, mutant.path),
            span.first,
            span.last,
            "\n".join(mutant.new),
            [item.nodeid for claim in claims for item in claim.items],
            bench.lane,
            decoy=mutant.words.decoy,
            unpaired=mutant.words.unpaired,
            reached_by=reached_by,
            diff="\n".join(diff_lines(bench.registry, mutant)),
            automatic=mutant.automatic,
        )

    def _note_missing_claim(self, trial: Trial) -> None:
        words = trial.mutant.words
        if trial.mutant.id in self._bench.claims or words.decoy or words.unpaired or trial.mutant.automatic:
            return
        if self._bench.lane == "gpu":  # a mutant is claimed by a test that needs no device; any test on it will do
            return
        if not is_narrowed(self._bench.session.config):
            trial.result.faults.append(f"no test claims it; mark one with kills('{trial.mutant.id}') or say 'unpaired'")

    def _put(self, trial: Trial, task: Task) -> Task:
        self._owner[task.serial] = trial
        trial.waiting += 1
        self._queue.append(task)
        return task

    def _take(self, done: Result) -> Iterator[MutantResult]:
        trial = self._owner[done.task.serial]
        if done.status == "timeout" and done.task.serial not in self._retried:
            self._slow.append(done.task)
            return
        trial.waiting -= 1
        trial.result.seconds += done.seconds
        verdict, test = self._verdict(done)
        trial.verdicts.append(verdict)
        if verdict in KILLS and (not trial.result.killer or verdict == Verdict.KILLED):
            assert test is not None
            trial.result.killer, trial.result.text = test.nodeid, test.text
        elif not trial.result.killer and (test or done.log):
            trial.result.text = test.text if test else done.log
        if done.task.serial in trial.claims:
            self._check_claim(trial, trial.claims[done.task.serial][0], verdict)
        if done.answer is not None:
            trial.result.tests.update({test.nodeid: test.outcome for test in done.answer.tests})
        if not trial.waiting:
            yield from self._widen_or_finish(trial)

    def _check_claim(self, trial: Trial, claim: Claim, verdict: Verdict) -> None:
        kills = verdict == Verdict.KILLED or (verdict == Verdict.KILLED_RAISE and not self._strict)
        # guard[claim-checked]: a kill by another test does not make a false claim true
        # mutant[claim-checked/removed]:
        #   - if not kills and verdict not in OPEN and verdict != Verdict.NOT_APPLIED:
        #   + if kills is None:
        if not kills and verdict not in OPEN and verdict != Verdict.NOT_APPLIED:
            trial.result.faults.append(f"{claim.name} claims the kill but says: {verdict}")

    def _verdict(self, done: Result) -> tuple[Verdict, TestOutcome | None]:
        """One child's verdict and the test that decided it."""
        # guard[timeout-no-kill]: nothing was asserted by a test that did not end
        # origin: ai-driven-dev/framework#837, timeouts scored as kills
        # mutant[timeout-no-kill/counted]:
        #   - if done.answer is None:
        #   -     return (Verdict.TIMEOUT if done.status == "timeout" else Verdict.CRASH), None
        #   + if done.answer is None:
        #   +     return Verdict.KILLED, TestOutcome(done.task.nodeids[0])
        if done.answer is None:
            return (Verdict.TIMEOUT if done.status == "timeout" else Verdict.CRASH), None
        if done.answer.stage == "collect":
            return Verdict.COLLECT_ERROR, None
        if not done.answer.applied:
            return Verdict.NOT_APPLIED, None
        for outcome, verdict in (
            (ASSERTION, Verdict.KILLED),
            (RAISE, Verdict.KILLED_RAISE),
            (SETUP, Verdict.SETUP_ERROR),
        ):
            for test in done.answer.tests:
                if test.outcome == outcome:
                    return verdict, test
        # guard[skipped-is-unexercised]: a test that skipped under the mutant has not tolerated it
        # origin: mlsynth#578, all-skipped read as survived
        # mutant[skipped-is-unexercised/survived]:
        #   - if all(test.outcome == SKIPPED for test in done.answer.tests):
        #   + if not done.answer.tests:
        if all(test.outcome == SKIPPED for test in done.answer.tests):
            return Verdict.UNEXERCISED, None
        return Verdict.SURVIVED, None

    def _widen_or_finish(self, trial: Trial) -> Iterator[MutantResult]:
        """Without a kill among the claims every test that reaches the span is tried, once."""
        result, bench = trial.result, self._bench
        settled = any(
            verdict in KILLS or verdict in OPEN or verdict == Verdict.NOT_APPLIED for verdict in trial.verdicts
        )
        wide = bench.option.mutate_matrix or not settled
        if wide and not trial.tried and not bench.option.mutate_matrix and trial.verdicts and not result.decoy:
            trial.tried = True
            self._open.append(trial)
            return
        if wide and not trial.widened:
            trial.widened = True
            reaching = self._reaching(trial.mutant)
            stop = () if bench.option.mutate_matrix else self._stop
            left = reaching
            if not bench.option.mutate_matrix:
                left = bench.baseline.shortest_first([n for n in reaching if n not in result.tests])
            if left:
                self._put(trial, bench.task(trial.mutant, left, stop))
                return
        result.verdict = self._final(trial)
        yield result

    def _final(self, trial: Trial) -> Verdict:
        result = trial.result
        order = (Verdict.KILLED, Verdict.KILLED_RAISE, Verdict.NOT_APPLIED, *sorted(OPEN), Verdict.SURVIVED)
        verdict = next((verdict for verdict in order if verdict in trial.verdicts), Verdict.UNEXERCISED)
        if verdict == Verdict.SURVIVED and result.reached_by == 0:
            verdict = Verdict.UNEXERCISED
        if verdict in KILLS:
            result.reached_by = max(result.reached_by, 1)  # its killer, which need not have been traced
        if verdict in KILLS and result.decoy:
            return Verdict.DECOY_KILLED
        if verdict in KILLS and result.unpaired:
            result.faults.append(f"says unpaired, but {result.killer} kills it; claim it there")
        return verdict
