"""The step loop. One call of `step()` is the whole life of a token:

    look up prefixes -> plan -> open caches -> inputs -> forward -> hand rows back -> draw -> append or end -> publish

When rows are handed back no sequence knows yet whether it has ended. That is why whoever reads a row outside the batch
(the prefix cache) strips its dead prefix, and the writer does not. (With drafts the rows wait for the draws, which say
how many of their columns are real.)
"""

import time

from teachkv.drawing import draw_tokens
from teachkv.errors import PlanRefused
from teachkv.inputs import Chunk, build_inputs, decode_chunks, prefill_chunks
from teachkv.kv.view import Array
from teachkv.model import Model
from teachkv.observe import Observer
from teachkv.recording import record_of
from teachkv.roster import Progress, Roster, too_large
from teachkv.schedule import Plan
from teachkv.speculate import draft_room, propose
from teachkv.work import Work


class Engine:
    """Obeys the plan: it decides nothing about who runs, and the scheduler touches nothing."""

    def __init__(self, model: Model, roster: Roster, observer: Observer, speculative_tokens: int = 0) -> None:
        self.model, self.roster, self.observer = model, roster, observer
        self.cache, self.scheduler, self.reuse = roster.cache, roster.scheduler, roster.reuse
        self.speculative_tokens = speculative_tokens

    def step(self) -> list[Progress]:
        """Carry out one plan. Whatever goes wrong, no sequence is lost: drawn tokens stand, rows are computed anew."""
        try:
            return self.carry_out()
        except BaseException:
            self.cache.invalidate()
            self.roster.start_over()
            raise

    def carry_out(self) -> list[Progress]:
        began = time.perf_counter()
        if self.reuse is not None:
            self.reuse.look_up(self.roster.sequences)
        plan = self.scheduler.plan()
        self.scheduler.apply(plan)
        for id in plan.preempt:
            self.roster.leave(id)
        unfit = [self.roster.sequences[id] for id in plan.unfit]
        progress = [self.roster.fail(sequence, too_large(sequence)) for sequence in unfit]
        work = self.work_of(plan)
        try:
            progress += self.run(work) if plan.ids else []
        except PlanRefused as refusal:
            work.refused = str(refusal)
            hopeless = self.scheduler.refused(plan, work.opening)
            progress += [self.roster.fail(self.roster.sequences[id], refusal) for id in hopeless]
        except MemoryError:
            if work.counted:
                raise
            work.refused = "out of memory"
            progress += self.roster.give_way()
        events = self.cache.take_events() + (self.reuse.take_events() if self.reuse is not None else [])
        kept = self.observer.trace is not None
        record = record_of(work, progress, events, self.scheduler.counts()[2], began, kept=kept)
        hit_rate = None if self.reuse is None else self.reuse.hit_rate()
        self.observer.see(record, hit_rate)
        if not self.roster.sequences:
            self.observer.log.flush(hit_rate)  # a short run shows its line too
        return progress

    def work_of(self, plan: Plan) -> Work:
        sequences = self.roster.sequences
        drafts = self.drafts(plan) if self.speculative_tokens and plan.decode else None
        return Work(
            plan, {"decode": decode_chunks(plan, sequences, drafts), "prefill": prefill_chunks(plan, sequences)}
        )

    def drafts(self, plan: Plan) -> dict[int, list[int]]:
        """Guesses for each decoder, as many as fit and as the sequence may still draw."""
        found = {}
        lengths = [self.cache.length(id) for id in plan.decode]
        room = draft_room(lengths, self.roster.limits.max_model_len, self.speculative_tokens)
        for id in plan.decode:
            sequence = self.roster.sequences[id]
            found[id] = propose(sequence.tokens, min(room, self.roster.limits.left(sequence) - 1))
        return found

    def run(self, work: Work) -> list[Progress]:
        """From open caches to drawn tokens. Nothing counts until the rows are handed back."""
        try:
            self.open(work)
            logits = self.forward(work)
        except BaseException:
            self.cache.invalidate()
            raise
        work.counted = True
        if not work.has_drafts:
            self.hand_back(work, None)
        assert work.inputs is not None
        work.outcomes = draw_tokens(
            self.model.ops, logits, work.inputs.wanted, self.roster.sequences, self.roster.limits
        )
        if work.has_drafts:
            self.hand_back(work, work.kept())
        progress = [self.roster.settle(outcome) for outcome in work.outcomes]
        for chunk in work.chunks["prefill"]:
            if chunk.draw:
                self.roster.publish(chunk.sequence)
        return progress

    def open(self, work: Work) -> None:
        """Room for the new columns of both parts. Raises PlanRefused, with every row as it was."""
        decode, prefill = work.chunks["decode"], work.chunks["prefill"]
        for chunk in prefill:
            self.roster.enter(chunk.sequence, chunk.start)
        if decode:
            work.views["decode"] = self.cache.open_decode(*ids_and_counts(decode))
        if prefill:
            work.views["prefill"] = self.cache.open_prefill(*ids_and_counts(prefill))

    def forward(self, work: Work) -> Array:
        inputs = work.inputs = build_inputs(work.chunks, work.views)
        began = time.perf_counter()
        logits = self.model.forward(inputs.tokens, inputs.parts, inputs.logits_at)
        work.forward_seconds = time.perf_counter() - began
        return logits

    def hand_back(self, work: Work, kept: list[int] | None) -> None:
        """The columns that were written count from now on; of decode row b the first kept[b] (None: all)."""
        for kind, view in work.views.items():
            counts = kept if kind == "decode" else None
            self.cache.close(view, counts)
            for place, chunk in enumerate(work.chunks[kind]):
                self.scheduler.computed(chunk.sequence.id, chunk.count if counts is None else counts[place])


def ids_and_counts(chunks: list[Chunk]) -> tuple[list[int], list[int]]:
    return [c.sequence.id for c in chunks], [c.count for c in chunks]
