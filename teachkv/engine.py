"""The step loop. One call of `step()` is the whole life of a token:

    look up prefixes -> plan -> open caches -> inputs -> forward -> hand rows back -> draw -> append or end -> publish

When rows are handed back no sequence knows yet whether it has ended. That is why whoever reads a row outside the batch
(the prefix cache) strips its dead prefix, and the writer does not.
"""

import time
from dataclasses import asdict, dataclass

from teachkv.drawing import draw_tokens
from teachkv.errors import PlanRefused
from teachkv.inputs import Chunk, StepInputs, build_inputs, decode_chunks, prefill_chunks
from teachkv.kv import CacheView
from teachkv.kv.view import Array
from teachkv.model import Model
from teachkv.observe import Observer, RowRecord, StepRecord, TokenRecord
from teachkv.roster import Progress, Roster, too_large
from teachkv.schedule import Plan


@dataclass(slots=True)
class Work:
    """What one plan has been turned into, as far as the step has come."""

    decode: list[Chunk]
    prefill: list[Chunk]
    views: dict[str, CacheView]
    inputs: StepInputs | None = None
    forward_seconds: float = 0.0

    def rows(self) -> tuple[RowRecord, ...]:
        return tuple(row for kind, view in self.views.items() for row in self.rows_of(kind, view))

    def rows_of(self, kind: str, view: CacheView) -> list[RowRecord]:
        """Where each row lies in the first layer's buffers, for the trace."""
        chunks, at = (self.decode if kind == "decode" else self.prefill), view.layers[0].geometry
        pads = [0] * len(chunks) if at.lead_pad is None else at.lead_pad.tolist()
        places = zip(chunks, at.row.tolist(), pads, at.end.tolist(), strict=True)
        return [RowRecord(c.sequence.id, kind, row, pad, end, c.stop - c.start) for c, row, pad, end in places]


class Engine:
    """Obeys the plan: it decides nothing about who runs, and the scheduler touches nothing."""

    def __init__(self, model: Model, roster: Roster, observer: Observer) -> None:
        self.model, self.roster, self.observer = model, roster, observer
        self.cache, self.scheduler, self.reuse = roster.cache, roster.scheduler, roster.reuse

    def step(self) -> list[Progress]:
        """Carry out one plan. Whatever goes wrong, no sequence is lost: tokens stand, rows are as of the step before."""
        began = time.perf_counter()
        if self.reuse is not None:
            self.reuse.look_up(self.roster.sequences)
        plan = self.scheduler.plan()
        self.scheduler.apply(plan)
        for id in plan.preempt:
            self.roster.leave(id)
        unfit = [self.roster.sequences[id] for id in plan.unfit]
        progress = [self.roster.fail(sequence, too_large(sequence)) for sequence in unfit]
        work = Work(decode_chunks(plan, self.roster.sequences), prefill_chunks(plan, self.roster.sequences), {})
        refused = None
        try:
            progress += self.run(work) if plan.ids else []
        except PlanRefused as refusal:
            refused = str(refusal)
            progress += [self.roster.fail(self.roster.sequences[id], refusal) for id in self.scheduler.refused(plan)]
        except MemoryError:
            refused = "out of memory"
            progress += self.roster.give_way()
        self.record(plan, work, progress, began, refused)
        return progress

    def run(self, work: Work) -> list[Progress]:
        """From open caches to drawn tokens. Nothing counts until the rows are handed back."""
        try:
            self.open(work)
            logits = self.forward(work)
        except BaseException:
            self.cache.invalidate()
            raise
        for view in work.views.values():
            self.cache.close(view)
        for chunk in (*work.decode, *work.prefill):
            self.scheduler.computed(chunk.sequence.id, chunk.stop - chunk.start)
        assert work.inputs is not None
        outcomes = draw_tokens(self.model.ops, logits, work.inputs.wanted, self.roster.sequences)
        progress = [self.roster.settle(outcome) for outcome in outcomes]
        for chunk in work.prefill:
            if chunk.draw:
                self.roster.publish(chunk.sequence)
        return progress

    def open(self, work: Work) -> None:
        """Room for the new columns of both parts. Raises PlanRefused, with every row as it was."""
        for chunk in work.prefill:
            self.roster.enter(chunk.sequence, chunk.start)
        if work.prefill:
            work.views["prefill"] = self.cache.open_prefill(*ids_and_counts(work.prefill))
        if work.decode:
            work.views["decode"] = self.cache.open_decode(*ids_and_counts(work.decode))

    def forward(self, work: Work) -> Array:
        inputs = work.inputs = build_inputs(work.decode, work.prefill, work.views)
        began = time.perf_counter()
        logits = self.model.forward(inputs.tokens, inputs.parts, inputs.logits_at)
        work.forward_seconds = time.perf_counter() - began
        return logits

    def record(self, plan: Plan, work: Work, progress: list[Progress], began: float, refused: str | None) -> None:
        """One record of the step for whoever watches."""
        _, _, resident = self.scheduler.counts()
        ran = refused is None and work.inputs is not None
        record = StepRecord(
            step=plan.step,
            plan=asdict(plan),
            running=plan.running,
            waiting=plan.waiting,
            resident=resident,
            rows=work.rows() if ran else (),
            tokens=tuple(
                TokenRecord(p.sequence.id, p.token, p.sequence.finish_reason) for p in progress if p.token is not None
            ),
            events=(*plan.events, *self.cache.take_events()),
            prefill_tokens=work.inputs.prefill_tokens if ran and work.inputs else 0,
            decode_tokens=work.inputs.decode_tokens if ran and work.inputs else 0,
            seconds=time.perf_counter() - began,
            forward_seconds=work.forward_seconds,
            refused=refused,
        )
        self.observer.see(record, None if self.reuse is None else self.reuse.hit_rate())


def ids_and_counts(chunks: list[Chunk]) -> tuple[list[int], list[int]]:
    return [c.sequence.id for c in chunks], [c.stop - c.start for c in chunks]
