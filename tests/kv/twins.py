"""Random histories, played to all caches at once; after every act all must show the same visible state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
from kvfake import OPS, check_live, spec, write

from teachkv.errors import PlanRefused, SlotError
from teachkv.kv import IncrementalBatchCache, RebuildBatchCache

MAXIMUM = 22
RESIDENT = 6
BUDGET = 20_000  # bytes; room for some doubling, not for all


class History:
    """Caches under test, and what each request should hold. Every act takes its choices from the `Random` given."""

    def __init__(self, rings: Sequence[int | None]) -> None:
        self.rings = tuple(rings)
        shape = spec(maximum=MAXIMUM, rings=self.rings)
        self.caches: list[Any] = [
            RebuildBatchCache(shape, OPS, poison=True),
            RebuildBatchCache(shape, OPS, strip="eager", poison=True),
            IncrementalBatchCache(shape, OPS, budget=0, poison=True),
            IncrementalBatchCache(shape, OPS, rows=RESIDENT, poison=True),
            IncrementalBatchCache(shape, OPS, budget=BUDGET, poison=True),
        ]
        self.lengths: dict[int, int] = {}
        self.next_id = 1

    def agreed(self, act: Callable[[Any], None]) -> bool:
        """Whether the caches did it; they must agree, and refuse in the same way."""
        outcomes: list[type[Exception] | None] = []
        for cache in self.caches:
            try:
                act(cache)
                outcomes.append(None)
            except (PlanRefused, SlotError) as error:
                outcomes.append(type(error))
        assert len(set(outcomes)) == 1, outcomes
        return outcomes[0] is None

    def run_part(self, kind: str, ids: list[int], counts: list[int], kept: list[int] | None = None) -> None:
        def act(cache: Any) -> None:
            view = (cache.open_decode if kind == "decode" else cache.open_prefill)(ids, counts)
            write(view, ids, counts, self.rings)
            cache.close(view, kept)

        if ids and self.agreed(act):
            for request_id, count in zip(ids, kept or counts, strict=True):
                self.lengths[request_id] += count

    def some(self, rng: Random, least: int = 0) -> list[int]:
        """Some requests with `least` positions and room for more, in any order."""
        able = [i for i, length in self.lengths.items() if least <= length < MAXIMUM]
        return rng.sample(able, rng.randint(1, len(able))) if able else []

    def one(self, rng: Random) -> int | None:
        return rng.choice(list(self.lengths)) if self.lengths else None

    def add(self, rng: Random) -> None:
        if len(self.lengths) < RESIDENT:
            prompt = rng.choice([3, 6, rng.randint(1, MAXIMUM)])
            self.lengths[self.next_id] = 0
            for cache in self.caches:
                cache.add(self.next_id)
            self.run_part("prefill", [self.next_id], [prompt])
            self.next_id += 1

    def prompt_chunks(self, rng: Random) -> None:
        ids = self.some(rng)
        self.run_part("prefill", ids, [rng.randint(1, min(7, MAXIMUM - self.lengths[i])) for i in ids])

    def decode_some(self, rng: Random) -> None:
        ids = self.some(rng, least=1)
        for _ in range(rng.randint(1, 4)):
            self.run_part("decode", ids, [1] * len(ids))

    def decode_all(self, rng: Random) -> None:
        """What the packed policy plans."""
        for _ in range(rng.randint(1, 4)):
            ids = [i for i, length in self.lengths.items() if 0 < length < MAXIMUM]
            self.run_part("decode", ids, [1] * len(ids))

    def decode_one_length(self, rng: Random) -> None:
        """What the bucketed policy plans, and all that a model with rings can do."""
        able = sorted({length for length in self.lengths.values() if 0 < length < MAXIMUM})
        if able:
            chosen = rng.choice(able)
            ids = [i for i, length in self.lengths.items() if length == chosen]
            for _ in range(min(rng.randint(1, 9), MAXIMUM - chosen)):
                self.run_part("decode", ids, [1] * len(ids))

    def speculate(self, rng: Random) -> None:
        ids = self.some(rng, least=1)
        counts = [rng.randint(1, 4) for _ in ids]
        self.run_part("decode", ids, counts, [rng.randint(1, n) for n in counts])

    def drop(self, rng: Random) -> None:
        if (gone := self.one(rng)) is not None:
            del self.lengths[gone]
            for cache in self.caches:
                cache.drop(gone)

    def preempt_and_recompute(self, rng: Random) -> None:
        if (victim := self.one(rng)) is not None:
            length, self.lengths[victim] = self.lengths[victim], 0
            for cache in self.caches:
                cache.drop(victim)
                cache.add(victim)
            self.run_part("prefill", [victim] if length else [], [length])

    def truncate(self, rng: Random) -> None:
        if (cut := self.one(rng)) is not None:
            n = rng.randint(0, self.lengths[cut])
            if self.agreed(lambda cache: cache.truncate(cut, n)):
                self.lengths[cut] = n

    def store_and_load(self, rng: Random) -> None:
        if (moved := self.one(rng)) is not None:
            for cache in self.caches:
                rows = cache.live_rows(moved)
                cache.drop(moved)
                cache.add(moved)
                cache.load_rows(moved, rows)

    def trim(self, rng: Random) -> None:
        for cache in self.caches:
            cache.trim()
        for cache in (self.caches[2], self.caches[4]):
            seats = [seat for seat in cache._seats.values() if seat.row is not None]
            seated, staged = ([seat.length for seat in seats if seat.staged == kind] for kind in (False, True))
            assert cache.stats().allocated_bytes <= cache.bytes_for(seated, staged)
            assert cache.slack() == 0

    def fail_half_way(self, rng: Random) -> None:
        """The model writes, then something fails: nothing of it may stay."""
        ids, kind = self.some(rng, least=1), rng.choice(["open_decode", "open_prefill"])

        def act(cache: Any) -> None:
            write(getattr(cache, kind)(ids, [1] * len(ids)), ids, [1] * len(ids), self.rings)
            cache.invalidate()

        if ids:
            self.agreed(act)

    def check(self) -> None:
        """Every request shows its codes in every cache; what nobody owns is NaN."""
        for request_id, length in self.lengths.items():
            for cache in self.caches:
                check_live(cache, request_id, length, self.rings)
        for cache in self.caches[2:]:
            for staged, buffers in ((True, cache.pool.buffers), (False, cache.batch.buffers)):
                seats = [s for s in cache._seats.values() if s.staged == staged and s.row is not None]
                assert len(seats) == buffers.used
                for layer, (k, v) in buffers.arrays.items():
                    dead = np.ones(k.shape[:3], dtype=bool)
                    for seat in seats:
                        full = self.rings[layer] is None
                        dead[seat.row, :, slice(seat.lead_pad, seat.end) if full else slice(None)] = False
                    assert np.isnan(k[dead]).all()
                    assert np.isnan(v[dead]).all()

    def finish(self) -> set[str]:
        """Drop everything; returns the kinds of events that were seen. Nothing may stay allocated."""
        for request_id in self.lengths:
            for cache in self.caches:
                cache.drop(request_id)
        assert all(cache.stats().allocated_bytes == 0 for cache in (*self.caches[:3], self.caches[4]))
        assert all(cache.memory.held_bytes == 0 for cache in (self.caches[2], self.caches[4]))
        return {event.split()[0] for cache in self.caches for event in cache.take_events()}


ACTS: tuple[Callable[[History, Random], None], ...] = (
    History.add,
    History.prompt_chunks,
    History.decode_some,
    History.decode_all,
    History.decode_one_length,
    History.speculate,
    History.drop,
    History.preempt_and_recompute,
    History.truncate,
    History.store_and_load,
    History.fail_half_way,
    History.trim,
)
