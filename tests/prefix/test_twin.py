"""The cache and its twin, driven by the same random calls: every visible thing is equal after every call.

A third cache, whose hash is constant, runs beside them.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from prefix_rows import POSITION_BYTES, check_inside, live, path_to, stored_blocks

from teachkv.prefix import Hit, NaivePrefixCache, PrefixCache, Tags

Tokens = st.lists(st.integers(0, 1), max_size=10)
AnyTags = st.sampled_from([Tags(), Tags(salt="s")])


class CacheAndTwin(RuleBasedStateMachine):
    @initialize(block_tokens=st.integers(1, 3), blocks=st.integers(0, 9))
    def begin(self, block_tokens: int, blocks: int) -> None:
        budget = blocks * block_tokens * POSITION_BYTES
        self.cache = PrefixCache(block_tokens, budget, b"model")
        self.hostile = PrefixCache(block_tokens, budget, b"model", digest=lambda _: b"")
        self.twin = NaivePrefixCache(block_tokens, budget, b"model")
        self.all: tuple[Any, ...] = (self.cache, self.hostile, self.twin)
        self.open: list[list[Hit[Any]]] = []

    @rule(tokens=Tokens, tags=AnyTags, data=st.data())
    def publish(self, tokens: list[int], tags: Tags, data: st.DataObject) -> None:
        coverage = data.draw(st.integers(0, len(tokens)))
        limit = data.draw(st.none() | st.integers(0, 10))
        stored = [
            cache.publish(tokens, coverage, lambda: live(tokens, coverage, tags), tags, limit=limit)
            for cache in self.all
        ]
        assert stored[0] == stored[1] == stored[2]

    @rule(tokens=Tokens, tags=AnyTags, keep=st.booleans())
    def match(self, tokens: list[int], tags: Tags, keep: bool) -> None:
        hits = [cache.match(tokens, tags) for cache in self.all]
        assert hits[0].length == hits[1].length == hits[2].length
        for blocks in zip(*(hit.blocks for hit in hits), strict=True):
            for sides in zip(*([side for pair in block.layers for side in pair] for block in blocks), strict=True):
                np.testing.assert_array_equal(sides[0], sides[2])
                np.testing.assert_array_equal(sides[1], sides[2])
        self.open.append(hits)
        if not keep:
            self.let_go(len(self.open) - 1)

    @precondition(lambda self: bool(self.open))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.let_go(data.draw(st.integers(0, len(self.open) - 1)))

    @rule(blocks=st.integers(0, 9))
    def set_budget(self, blocks: int) -> None:
        for cache in self.all:
            cache.set_budget(blocks * self.cache.block_tokens * POSITION_BYTES)

    @rule()
    def clear(self) -> None:
        for cache in self.all:
            cache.clear()

    def let_go(self, index: int) -> None:
        for cache, hit in zip(self.all, self.open.pop(index), strict=True):
            cache.release(hit)

    @invariant()
    def show_the_same(self) -> None:
        if not hasattr(self, "all"):
            return
        stats = [replace(cache.stats(), compared=0) for cache in self.all]
        assert stats[0] == stats[1] == stats[2]
        assert self.cache.version == self.hostile.version == self.twin.version
        records = sorted((record.tokens, record.pins) for record in self.twin._records)
        for cache in (self.cache, self.hostile):
            assert sorted((path_to(block), block.pins) for block in stored_blocks(cache)) == records
            check_inside(cache)

    def teardown(self) -> None:
        while getattr(self, "open", None):
            self.let_go(0)
        if hasattr(self, "all"):
            self.show_the_same()
            assert self.cache.stats().pins == 0


TestCacheAndTwin = CacheAndTwin.TestCase
TestCacheAndTwin.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
