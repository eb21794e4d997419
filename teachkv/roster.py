"""Who is here: sequences by id, which of them hold rows, and every way to come in and to leave."""

from collections.abc import Iterable

from teachkv.drawing import Outcome
from teachkv.errors import RequestError, TeachKVError
from teachkv.finish import Limits, finish
from teachkv.inputs import Chunk
from teachkv.kv import BatchCache
from teachkv.outputs import FinishReason
from teachkv.reuse import Reuse
from teachkv.schedule import Scheduler
from teachkv.sequence import Sequence


class Roster:
    """Keyed by sequence id, never by row number: rows move when others leave, ids do not.

    decoders: of the last step that had some, and no drafts; none once a sequence has gone, which they would keep.
    """

    def __init__(self, cache: BatchCache, scheduler: Scheduler, reuse: Reuse | None, limits: Limits) -> None:
        self.cache, self.scheduler, self.reuse, self.limits = cache, scheduler, reuse, limits
        self.sequences: dict[int, Sequence] = {}
        self.resident: set[int] = set()
        self.tried_alone: tuple[int, int] | None = None
        self.decoders: tuple[tuple[int, ...], list[Chunk]] = ((), [])

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence. One with nothing to compute ends here: no tokens wanted, or no room left in the context
        (and nothing to report about the prompt)."""
        wants_nothing = sequence.request.params.max_tokens == 0
        # guard[full-context]: a prompt that fills the context has nothing left to run; queued anyway, it waits for ever
        # origin: vllm#29496
        # mutant[full-context/one-more]:
        #   - full = len(sequence.tokens) >= self.limits.max_model_len
        #   + full = len(sequence.tokens) > self.limits.max_model_len
        full = len(sequence.tokens) >= self.limits.max_model_len
        if (wants_nothing or full) and not sequence.wants_prompt_logprobs:
            finish(sequence, "length")
            return
        self.sequences[sequence.id] = sequence
        self.scheduler.add(sequence.id, len(sequence.tokens))

    def abort(self, id: int) -> None:
        """End a sequence now; its rows are free before the next step. Unknown and finished ids are left alone."""
        if id in self.sequences:
            self.end(self.sequences[id], "abort")

    def enter(self, sequence: Sequence, start: int) -> None:
        """Rows begin for a sequence that has none; a prefix hit fills positions 0 .. start-1."""
        if sequence.id in self.resident:
            return
        self.cache.add(sequence.id)
        self.resident.add(sequence.id)
        if self.reuse is not None:
            self.reuse.load(sequence, start)

    def expect(self, sequences: Iterable[Sequence]) -> None:
        """A token of each is being drawn. Nobody has seen it, but whether it is the last one by count is known; only an
        end that the token itself brings (eos, a stop, an error) is still to be learned."""
        for sequence in sequences:
            sequence.unseen = 1
            # guard[last-by-count]: the number of tokens is known before they are, so none is drawn past max_tokens
            # mutant[last-by-count/one-more]:
            #   - if self.limits.left(sequence) > 1:
            #   + if self.limits.left(sequence) > 0:
            if self.limits.left(sequence) > 1:
                self.scheduler.appended(sequence.id)
            else:
                self.scheduler.ending(sequence.id)

    def settle(self, outcomes: Iterable[Outcome], *, told: bool = False) -> None:
        """What sequences gained has been appended: now each ends, or waits for its next step. told: `expect` has told
        the scheduler of the tokens."""
        for outcome in outcomes:
            sequence = outcome.sequence
            if outcome.error is not None:
                outcome.text += finish(sequence, "error", error=outcome.error)
                self.forget(sequence)
            elif not outcome.tokens:
                outcome.text += finish(sequence, "length")
                self.retire(sequence)
            elif sequence.finished:
                self.retire(sequence)
            elif not told:
                self.scheduler.appended(sequence.id, len(outcome.tokens))

    def end(self, sequence: Sequence, reason: FinishReason) -> Outcome:
        """The sequence ends with what it has."""
        text = finish(sequence, reason)
        self.retire(sequence)
        return Outcome(sequence, text=text)

    def fail(self, sequence: Sequence, error: TeachKVError) -> Outcome:
        """The sequence ends by an error. Its rows may hold anything, so nothing of them is published."""
        text = finish(sequence, "error", error=error)
        self.forget(sequence)
        return Outcome(sequence, text=text, error=error)

    def publish(self, sequence: Sequence) -> None:
        if self.reuse is not None and sequence.id in self.resident:
            self.reuse.publish(sequence)

    def retire(self, sequence: Sequence) -> None:
        self.publish(sequence)
        self.forget(sequence)

    def forget(self, sequence: Sequence) -> None:
        self.leave(sequence.id)
        self.scheduler.finish(sequence.id)
        del self.sequences[sequence.id]
        self.decoders = ((), [])

    def leave(self, id: int) -> None:
        """Rows and hits are given back; the sequence itself stays (preemption)."""
        if id in self.resident:
            self.resident.remove(id)
            self.cache.drop(id)
        if self.reuse is not None:
            self.reuse.forget(id)

    def start_over(self) -> None:
        """A step broke off somewhere. What the sequences say is true; rows and scheduler are made anew from it."""
        for sequence in list(self.sequences.values()):
            self.forget(sequence)
            sequence.unseen = sequence.in_flight = 0
            # guard[broken-step]: a token that was drawn and not yet told to the scheduler would stop every later step
            # mutant[broken-step/kept-as-it-is]:
            #   - if not sequence.finished:
            #   -     self.sequences[sequence.id] = sequence
            #   -     self.scheduler.add(sequence.id, len(sequence.tokens))
            #   + self.sequences[sequence.id] = sequence
            if not sequence.finished:
                self.sequences[sequence.id] = sequence
                self.scheduler.add(sequence.id, len(sequence.tokens))

    def give_way(self) -> list[Outcome]:
        """Memory ran out in a step: the newest gives its rows back and is computed again later.

        One that is alone gets the prefix cache's memory and tries once more; at the same point again, it fails.
        """
        # guard[shortage-newest]: the oldest has the most to lose; were it the victim, two could take turns for ever
        # origin: mistral.rs#2033
        # mutant[shortage-newest/oldest]:
        #   - newest = self.sequences[max(self.resident)]
        #   + newest = self.sequences[min(self.resident)]
        newest = self.sequences[max(self.resident)]
        if len(self.resident) == 1:
            point = (newest.id, self.cache.length(newest.id))
            if self.reuse is None or self.tried_alone == point:
                return [self.fail(newest, too_large(newest))]
            self.tried_alone = point
            self.reuse.prefix.clear()
            return []
        # guard[shortage-one-victim]: a lack of memory costs one sequence its rows, not every sequence its answer
        # origin: atlas#375
        # mutant[shortage-one-victim/all-fail]:
        #   - self.scheduler.preempted(newest.id)
        #   - self.leave(newest.id)
        #   + return [self.fail(s, too_large(s)) for s in list(self.sequences.values())]
        self.scheduler.preempted(newest.id)
        self.leave(newest.id)
        return []


def too_large(sequence: Sequence) -> RequestError:
    return RequestError(
        f"request {sequence.request.index}: {len(sequence.tokens)} tokens do not fit into the KV budget even alone; "
        "raise kv_budget or shorten the prompt"
    )
