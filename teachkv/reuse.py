"""Between engine and prefix cache: look prompts up before they get a seat, load what was found, publish what is new."""

from collections.abc import Mapping

from teachkv.config import ModelConfig
from teachkv.errors import GeometryError
from teachkv.kv import BatchCache, LiveRows
from teachkv.kv.batch_cache import without_last
from teachkv.prefix import Block, Hit, PrefixCache
from teachkv.schedule import Scheduler
from teachkv.sequence import Sequence


class Reuse:
    """Holds the hits of waiting sequences, by id. A hit is pinned from its look-up until its rows have been copied."""

    def __init__(self, prefix: PrefixCache, config: ModelConfig, cache: BatchCache, scheduler: Scheduler) -> None:
        self.prefix, self.cache, self.scheduler = prefix, cache, scheduler
        self.limit = config.rope.original if config.rope.depends_on_length else None
        self.hits: dict[int, Hit[Block]] = {}
        self.seen: dict[int, int] = {}
        self.events: list[str] = []
        self.asked = self.found = 0

    def allows(self, sequence: Sequence) -> bool:
        """Prompt log-probs need logits at every position, so such a request computes everything.

        Under dynamic rope a prompt beyond the original length rotates its keys by its own length: none can share them.
        """
        # guard[reuse-recomputes]: a position taken from the cache has no logits to report
        # origin: vllm#42019
        # mutant[reuse-recomputes/served]:
        #   - if sequence.wants_prompt_logprobs:
        #   + if False:
        if sequence.wants_prompt_logprobs:
            return False
        # guard[dynamic-own-length]: rows turned by one prompt's own length are wrong for a prompt of any other
        # mutant[dynamic-own-length/shared]:
        #   - return self.limit is None or sequence.prompt_len <= self.limit
        #   + return True
        return self.limit is None or sequence.prompt_len <= self.limit

    def look_up(self, sequences: Mapping[int, Sequence]) -> None:
        """Tell the scheduler how much of each sequence that may come in next is already there."""
        version = self.prefix.version
        for id in self.scheduler.upcoming():
            if self.seen.get(id) == version or not self.allows(sequences[id]):
                continue
            self.forget(id)
            self.seen[id] = version
            hit = self.prefix.match(sequences[id].tokens)
            self.hits[id] = hit
            self.scheduler.hit(id, hit.length)

    def load(self, sequence: Sequence, start: int) -> None:
        """Copy the hit's rows into the sequence's own; its first chunk starts at `start`."""
        self.asked += len(sequence.tokens)
        self.found += start
        hit = self.hits.pop(sequence.id, None)
        if hit is None:
            return
        if start:
            self.cache.load_blocks(sequence.id, [block.layers for block in hit.blocks])
            self.events.append(f"prefix-hit id={sequence.id} tokens={start}")
        # guard[cached-once]: what a preempted request finds of its own was computed for it, and is no saving to report
        # origin: vllm#16832
        # mutant[cached-once/own-rows]:
        #   - if sequence.num_generated == 0:
        #   + if True:
        if sequence.num_generated == 0:
            sequence.cached = start
        self.prefix.release(hit)

    def publish(self, sequence: Sequence) -> None:
        """Store what has been computed. The last drawn token has no row yet, so the cache says how far that is, less
        what a step has written that is still in flight.

        Rows that cannot be shown without their dead prefix are not stored; the request has its answer all the same.
        """
        if not self.allows(sequence):
            return
        # guard[surplus-unpublished]: the step after the last token wrote a row for it, which plain decoding never does
        # mutant[surplus-unpublished/published]:
        #   - surplus = sequence.in_flight
        #   + surplus = 0
        surplus = sequence.in_flight
        coverage = self.cache.length(sequence.id) - surplus

        def rows() -> LiveRows:
            return without_last(self.cache.live_rows(sequence.id), surplus)

        try:
            self.prefix.publish(sequence.tokens, coverage, rows, limit=self.limit)
        except GeometryError as refusal:
            self.events.append(f"store-refused id={sequence.id}: {refusal}")

    def hit_rate(self) -> float:
        """Share of the tokens to compute, of all sequences that came in so far, that were found."""
        return self.found / self.asked if self.asked else 0.0

    def take_events(self) -> list[str]:
        """Hits and refusals since the last call, one line each."""
        events, self.events = self.events, []
        return events

    def forget(self, id: int) -> None:
        """Let go of a hit that will not be used (aborted, or looked up again)."""
        self.seen.pop(id, None)
        hit = self.hits.pop(id, None)
        if hit is not None:
            self.prefix.release(hit)
