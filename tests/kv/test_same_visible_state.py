"""Rebuild and incremental are each other's twin: any history shows the same visible state, bit for bit.

Visible state = {id: live K and V per layer, next position}. Columns and rows may differ. Every column that holds
nobody's content is NaN, and each part's fake model checks that its queries see their own request's keys, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from kvfake import OPS, check_live, spec, write

from teachkv.errors import PlanRefused, SlotError
from teachkv.kv import IncrementalBatchCache, RebuildBatchCache

GROW, MAXIMUM = 4, 22  # blocks of 4 and a maximum that is no multiple of it, so that every edge is met often


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in ("spec", "columns", "budget"):
        monkeypatch.setattr(f"teachkv.kv.{module}.GROW", GROW)
    return


class Twins(RuleBasedStateMachine):
    rings: tuple[int | None, ...] = (None, None)

    def __init__(self) -> None:
        super().__init__()
        shape = spec(maximum=MAXIMUM, rings=self.rings)
        self.caches: list[Any] = [
            RebuildBatchCache(shape, OPS, poison=True),
            RebuildBatchCache(shape, OPS, strip="eager", poison=True),
            IncrementalBatchCache(shape, OPS, poison=True),
            IncrementalBatchCache(shape, OPS, rows=6, poison=True),
        ]
        self.lengths: dict[int, int] = {}
        self.next_id = 1

    def all_or_none(self, act: Callable[[Any], None]) -> bool:
        """Whether the caches did it; they must agree."""
        outcomes = []
        for cache in self.caches:
            try:
                act(cache)
                outcomes.append(None)
            except (PlanRefused, SlotError) as error:
                outcomes.append(type(error))
        assert len(set(outcomes)) == 1, outcomes
        return outcomes[0] is None

    def pick(self, data: st.DataObject, least: int = 0) -> list[int]:
        able = [i for i, length in self.lengths.items() if least <= length < MAXIMUM]
        return data.draw(st.lists(st.sampled_from(able), min_size=1, max_size=5, unique=True)) if able else []

    def run_part(self, kind: str, ids: list[int], counts: list[int], kept: list[int]) -> None:
        def act(cache: Any) -> None:
            view = (cache.open_decode if kind == "decode" else cache.open_prefill)(ids, counts)
            write(view, ids, counts, self.rings)
            cache.close(view, kept)

        if self.all_or_none(act):
            for request_id, count in zip(ids, kept, strict=True):
                self.lengths[request_id] += count

    @precondition(lambda self: len(self.lengths) < 6)
    @rule(prompt=st.one_of(st.sampled_from([3, 6]), st.integers(1, MAXIMUM)))
    def add(self, prompt: int) -> None:
        self.lengths[self.next_id] = 0
        for cache in self.caches:
            cache.add(self.next_id)
        self.run_part("prefill", [self.next_id], [prompt], [prompt])
        self.next_id += 1

    @rule(data=st.data())
    def prompt_chunks(self, data: st.DataObject) -> None:
        if ids := self.pick(data):
            counts = [data.draw(st.integers(1, MAXIMUM - self.lengths[i])) for i in ids]
            self.run_part("prefill", ids, counts, counts)

    @rule(data=st.data(), steps=st.integers(1, 6))
    def decode(self, data: st.DataObject, steps: int) -> None:
        if ids := self.pick(data, least=1):
            for _ in range(steps):
                self.run_part("decode", ids, [1] * len(ids), [1] * len(ids))

    @rule(data=st.data(), steps=st.integers(1, 9))
    def decode_one_length(self, data: st.DataObject, steps: int) -> None:
        """What the bucketed policy plans, and all that a model with rings can do."""
        able = sorted({length for length in self.lengths.values() if 0 < length < MAXIMUM})
        if able:
            chosen = data.draw(st.sampled_from(able))
            ids = [i for i, length in self.lengths.items() if length == chosen]
            for _ in range(min(steps, MAXIMUM - chosen)):
                self.run_part("decode", ids, [1] * len(ids), [1] * len(ids))

    @rule(data=st.data())
    def speculate(self, data: st.DataObject) -> None:
        if ids := self.pick(data, least=1):
            counts = data.draw(st.lists(st.integers(1, 4), min_size=len(ids), max_size=len(ids)))
            kept = [data.draw(st.integers(1, n)) for n in counts]
            self.run_part("decode", ids, counts, kept)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.lengths:
            gone = data.draw(st.sampled_from(list(self.lengths)))
            del self.lengths[gone]
            for cache in self.caches:
                cache.drop(gone)

    @rule(data=st.data())
    def preempt_and_recompute(self, data: st.DataObject) -> None:
        if self.lengths:
            victim = data.draw(st.sampled_from(list(self.lengths)))
            length, self.lengths[victim] = self.lengths[victim], 0
            for cache in self.caches:
                cache.drop(victim)
                cache.add(victim)
            if length:
                self.run_part("prefill", [victim], [length], [length])

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        if self.lengths:
            cut = data.draw(st.sampled_from(list(self.lengths)))
            n = data.draw(st.integers(0, self.lengths[cut]))
            if self.all_or_none(lambda cache: cache.truncate(cut, n)):
                self.lengths[cut] = n

    @rule(data=st.data())
    def store_and_load(self, data: st.DataObject) -> None:
        if self.lengths:
            moved = data.draw(st.sampled_from(list(self.lengths)))
            for cache in self.caches:
                rows = cache.live_rows(moved)
                cache.drop(moved)
                cache.add(moved)
                cache.load_rows(moved, rows)

    @rule(data=st.data(), kind=st.sampled_from(["decode", "prefill"]))
    def fail_half_way(self, data: st.DataObject, kind: str) -> None:
        if ids := self.pick(data, least=1):

            def act(cache: Any) -> None:
                view = (cache.open_decode if kind == "decode" else cache.open_prefill)(ids, [1] * len(ids))
                write(view, ids, [1] * len(ids), self.rings)
                cache.invalidate()

            self.all_or_none(act)

    @invariant()
    def same_visible_state(self) -> None:
        for request_id, length in self.lengths.items():
            for cache in self.caches:
                check_live(cache, request_id, length, self.rings)

    @invariant()
    def dead_columns_are_nan(self) -> None:
        """In the incremental cache's buffers, what no sequence owns is NaN (rings: behind their end)."""
        for cache in self.caches[2:]:
            for staged, buffers in ((True, cache.pool.buffers), (False, cache.batch.buffers)):
                seats = [s for s in cache._seats.values() if s.staged == staged and s.row is not None]
                for layer, (k, _) in buffers.arrays.items():
                    dead = np.ones(k.shape[:3], dtype=bool)
                    for seat in seats:
                        ring = self.rings[layer]
                        start, stop = (seat.lead_pad, seat.end) if ring is None else (0, k.shape[2])
                        dead[seat.row, :, start:stop] = False
                    assert np.isnan(k[dead]).all()

    def teardown(self) -> None:
        SEEN.update(event.split()[0] for cache in self.caches for event in cache.take_events())
        for request_id in self.lengths:
            for cache in self.caches:
                cache.drop(request_id)
        assert all(cache.stats().allocated_bytes == 0 for cache in self.caches[:3])


SEEN: set[str] = set()


def run(rings: tuple[int | None, ...], examples: int) -> None:
    machine = type("Machine", (Twins,), {"rings": rings})
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=checks, database=None
        ),
    )


@pytest.mark.parametrize("rings", [(None, None), (None, 4), (3, 3)], ids=["full", "full and ring", "ring"])
def test_any_history_shows_the_same_visible_state(rings: tuple[int | None, ...]) -> None:
    SEEN.clear()
    run(rings, examples=60)
    ragged = {"align", "strip", "commit", "realign", "compact"} if rings == (None, None) else set()
    assert {"join", "leave", "grow"} | ragged <= SEEN
