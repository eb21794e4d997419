"""The step loop. One call of `step()` is the whole life of a token:

    look up prefixes -> plan -> open caches -> inputs -> forward -> hand rows back -> draw -> append or end -> publish
    launch ------------------------------------------------------------------------>   settle ---------------------->

When rows are handed back no sequence knows yet whether it has ended. That is why whoever reads a row outside the batch
(the prefix cache) strips its dead prefix, and the writer does not. (With drafts the rows wait for the draws, which say
how many of their columns are real.)

On a device `launch` only puts work into the stream, and `settle` waits for the tokens. So there are two loops:

    ordinary     launch n, settle n, launch n+1, settle n+1
    overlapped   launch n, launch n+1, settle n, launch n+2, settle n+1

In the overlapped loop the tokens of n go into step n+1 on the device, and the host plans while the device computes. It
learns one step late that a sequence has ended; what n+1 did for that sequence is surplus and dropped.
"""

import time

from teachkv.arrivals import Arrivals
from teachkv.drawing import Outcome, begin_round, draw_tokens
from teachkv.errors import PlanRefused
from teachkv.inputs import Chunk, build_inputs, decode_chunks, handed_over, prefill_chunks
from teachkv.kv.view import Array
from teachkv.model import Model
from teachkv.observe import Observer
from teachkv.recording import details_of, record_of
from teachkv.roster import Roster, too_large
from teachkv.schedule import Plan
from teachkv.speculate import draft_room, propose
from teachkv.work import Work


class Engine:
    """Obeys the plan: it decides nothing about who runs, and the scheduler touches nothing.

    overlap: take the overlapped loop; speculative_tokens must be 0 then, and rows able to be ragged.
    """

    def __init__(
        self, model: Model, roster: Roster, observer: Observer, speculative_tokens: int = 0, *, overlap: bool = False
    ) -> None:
        self.model, self.roster, self.observer = model, roster, observer
        self.cache, self.scheduler, self.reuse = roster.cache, roster.scheduler, roster.reuse
        self.speculative_tokens, self.overlap, self.settled_at = speculative_tokens, overlap, 0.0
        self.in_flight: Work | None = None
        self.arrivals = Arrivals(model.ops.xp, self.scheduler.limits.max_num_seqs) if overlap else None

    def step(self) -> list[Outcome]:
        """Carry out one plan. Whatever goes wrong, no sequence is lost: drawn tokens stand, rows are computed anew."""
        try:
            return self.overlapped() if self.overlap else self.ordinary()
        except BaseException:
            self.in_flight = None
            self.cache.invalidate()
            self.roster.start_over()
            raise

    def ordinary(self) -> list[Outcome]:
        work = self.launch(self.next_plan())
        return self.settle(work)

    def overlapped(self) -> list[Outcome]:
        """The same one step ahead: the next step is launched before the tokens of this one are looked at."""
        work = self.awaited() or self.launch(self.next_plan())
        self.in_flight = self.launch_ahead(work)
        outcomes = self.settle(work)
        self.in_flight = self.awaited()
        return outcomes

    def awaited(self) -> Work | None:
        """The step in flight, unless all of its sequences have ended: then nobody waits for it, and nothing of it is
        ever counted."""
        work = self.in_flight
        return work if work is not None and any(id in self.roster.sequences for id in work.plan.ids) else None

    def launch_ahead(self, work: Work) -> Work | None:
        """The step after `work`, whose tokens nobody has seen; None if that step cannot do without them."""
        if work.refusal is not None or work.first is None:
            return None
        self.roster.expect([chunk.sequence for chunk in work.first.chunks if not chunk.sequence.finished])
        work.told = True
        plan = self.next_plan()
        why = self.reason_to_wait(plan)
        if why is not None:
            work.notes.append(f"in-turn-{why}")
        return self.launch(plan, work) if plan.ids and why is None else None

    def reason_to_wait(self, plan: Plan) -> str | None:
        """Why this plan must not be carried out before the tokens of the step before have been seen."""
        if plan.preempt or plan.unfit:
            return "shortage"
        # guard[sees-last-token]: penalties count the very token that has not been seen yet
        # mutant[sees-last-token/not-asked]:
        #   - drawing = [self.roster.sequences[id] for id in plan.ids]
        #   + drawing = []
        drawing = [self.roster.sequences[id] for id in plan.ids]
        found = (s.state.processor_at(s.state.index + s.unseen) for s in drawing if not s.state.plain)
        return next((why for why in found if why is not None), None)

    def next_plan(self) -> Plan:
        if self.reuse is not None:
            self.reuse.look_up(self.roster.sequences)
        return self.scheduler.plan()

    def launch(self, plan: Plan, before: Work | None = None) -> Work:
        """From a plan to tokens being drawn. What cannot be carried out is seen to when the step is settled.

        before: the step in flight, whose tokens this one takes over on the device.
        """
        began = time.perf_counter()
        self.scheduler.apply(plan)
        for id in plan.preempt:
            self.roster.leave(id)
        unfit = [self.roster.sequences[id] for id in plan.unfit]
        failed = [self.roster.fail(sequence, too_large(sequence)) for sequence in unfit]
        work = self.work_of(plan)
        work.began, work.outcomes, work.ahead = began, failed, before is not None
        try:
            if plan.ids:
                self.run(work, before)
        except (PlanRefused, MemoryError) as refusal:
            if work.counted:
                raise
            work.refusal = refusal
        work.notes += (["overlap"] if work.ahead else []) + self.take_events()
        return work

    def settle(self, work: Work) -> list[Outcome]:
        """Look at the drawn tokens: append, end, publish; then tell the observer."""
        handed_back_early = work.counted and not work.has_drafts
        for chunk in work.all_chunks:
            sequence = chunk.sequence
            sequence.unseen = 0
            if handed_back_early:
                sequence.in_flight -= chunk.count
            if sequence.finished:
                work.surplus.add(sequence.id)
        if work.refusal is not None:
            work.outcomes += self.give_up(work, work.refusal)
        elif work.counted:
            work.outcomes += self.take_in(work)
        if self.in_flight is not None:
            here = self.roster.sequences
            work.notes += [f"surplus id={id}" for id in self.in_flight.plan.ids if id not in here]
        events, now = self.take_events(), time.perf_counter()
        seconds, self.settled_at = now - max(work.began, self.settled_at), now
        hit_rate = None if self.reuse is None else self.reuse.hit_rate()
        record = record_of(work, events, self.scheduler.counts()[2], seconds)
        self.observer.see(record, hit_rate, details_of(work) if self.observer.trace is not None else None)
        if not self.roster.sequences:
            self.observer.log.flush(hit_rate)  # a short run shows its line too
        return work.outcomes

    def take_in(self, work: Work) -> list[Outcome]:
        """Wait for the tokens; what each sequence gained, in the order of the plan."""
        assert work.inputs is not None
        assert work.logits is not None
        if work.first is not None:
            work.waited = work.first.wait()
        work.drawn = draw_tokens(self.model.ops, work.logits, work.inputs.wanted, self.roster.limits, work.first)
        if work.has_drafts:
            self.hand_back(work, work.kept())
        self.roster.settle(work.drawn, told=work.told)
        for chunk in work.chunks["prefill"]:
            if chunk.draw:
                self.roster.publish(chunk.sequence)
        return work.drawn

    def give_up(self, work: Work, refusal: PlanRefused | MemoryError) -> list[Outcome]:
        """The plan could not be carried out. The next one will be another: smaller, or with one sequence less."""
        if isinstance(refusal, MemoryError):
            work.refused = "out of memory"
            return self.roster.give_way() if self.roster.resident else []
        work.refused = str(refusal)
        hopeless = self.scheduler.refused(work.plan, work.opening)
        return [self.roster.fail(self.roster.sequences[id], refusal) for id in hopeless]

    def work_of(self, plan: Plan) -> Work:
        sequences = self.roster.sequences
        if self.speculative_tokens and plan.decode:
            decode = decode_chunks(plan, sequences, self.drafts(plan))
        elif plan.decode == self.roster.decoders[0]:
            decode = self.roster.decoders[1]
        else:
            decode = decode_chunks(plan, sequences)
            self.roster.decoders = plan.decode, decode
        prefill = prefill_chunks(plan, sequences)
        return Work(plan, {"decode": decode, "prefill": prefill}, any(chunk.drafts for chunk in decode))

    def drafts(self, plan: Plan) -> dict[int, list[int]]:
        """Guesses for each decoder, as many as fit and as the sequence may still draw."""
        found = {}
        lengths = [self.cache.length(id) for id in plan.decode]
        room = draft_room(lengths, self.roster.limits.max_model_len, self.speculative_tokens)
        for id in plan.decode:
            sequence = self.roster.sequences[id]
            found[id] = propose(sequence.tokens, min(room, self.roster.limits.left(sequence) - 1))
        return found

    def run(self, work: Work, before: Work | None) -> None:
        """From open caches to tokens being drawn. Nothing counts until the rows are handed back."""
        try:
            self.open(work)
            work.logits = self.forward(work, before)
        except BaseException:
            self.cache.invalidate()
            raise
        work.counted = True
        if not work.has_drafts:
            self.hand_back(work, None)
        assert work.inputs is not None
        work.first = begin_round(self.model.ops, work.logits, work.inputs.wanted)
        if self.arrivals is not None and work.first is not None:
            work.first.drawing.fetch = self.arrivals.expect(work.first.drawing.tokens)

    def open(self, work: Work) -> None:
        """Room for the new columns of both parts. Raises PlanRefused, with every row as it was."""
        decode, prefill = work.chunks["decode"], work.chunks["prefill"]
        for chunk in prefill:
            self.roster.enter(chunk.sequence, chunk.start or 0)
        if work.has_drafts:
            work.views["decode"] = self.cache.open_decode(*ids_and_counts(decode))
        elif decode:
            work.views["decode"] = self.cache.open_decode(work.plan.decode)
        if prefill:
            work.views["prefill"] = self.cache.open_prefill(*ids_and_counts(prefill))

    def forward(self, work: Work, before: Work | None) -> Array:
        inputs = work.inputs = build_inputs(work.chunks, work.views)
        began = time.perf_counter()
        tokens = inputs.tokens
        if before is not None and before.first is not None:
            places, ids = inputs.unseen
            tokens = handed_over(self.model.ops.xp, tokens, places, before.first.rows_of(ids), before.first.tokens)
        logits = self.model.forward(tokens, inputs.parts, inputs.logits_at)
        work.forward_seconds = time.perf_counter() - began
        return logits

    def hand_back(self, work: Work, kept: list[int] | None) -> None:
        """The columns that were written count from now on; of decode row b the first kept[b] (None: all)."""
        for kind, view in work.views.items():
            counts = kept if kind == "decode" else None
            self.cache.close(view, counts)
            for place, chunk in enumerate(work.chunks[kind]):
                self.scheduler.computed(chunk.sequence.id, chunk.count if counts is None else counts[place])
                if kept is None:
                    chunk.sequence.in_flight += chunk.count

    def take_events(self) -> list[str]:
        """What caches and prefix cache have done since the last call."""
        return self.cache.take_events() + (self.reuse.take_events() if self.reuse is not None else [])


def ids_and_counts(chunks: list[Chunk]) -> tuple[list[int], list[int]]:
    return [c.sequence.id for c in chunks], [c.count for c in chunks]
