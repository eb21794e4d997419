"""What a change costs, in bytes moved and bytes held: counted, not timed."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kvfake import OPS, check_live, decode, prefill, spec, started, write

from teachkv.kv import CacheSpec, IncrementalBatchCache, RebuildBatchCache
from teachkv.kv.budget import bytes_for
from teachkv.kv.columns import ColumnPlan, plan_columns
from teachkv.kv.row_buffers import row_block

LAYERS, L = 2, 10


def cost(cache: Any, act: Any) -> int:
    """Columns that were copied in every layer meanwhile, K and V."""
    before = cache.stats().moved_bytes
    act()
    columns: int = (cache.stats().moved_bytes - before) // (LAYERS * cache.spec.column_bytes)
    return columns


def resident(kind: Any, count: int, **options: Any) -> Any:
    c = kind(spec(layers=LAYERS, maximum=40), OPS, poison=False, **options)
    started(c, {i: L - i % 3 for i in range(count)})
    view = c.open_decode(range(count))
    c.close(view)
    return c


@pytest.mark.parametrize("rows", [8, 64, 512])
def test_a_membership_change_costs_the_changed_rows(rows: int) -> None:
    c = resident(IncrementalBatchCache, rows, rows=rows + 1)
    assert cost(c, lambda: c.drop(3)) == 0
    assert cost(c, lambda: started(c, {1000: L})) == 0
    others = [i for i in range(rows) if i != 3]
    assert cost(c, lambda: c.close(c.open_decode([*others, 1000]))) == L
    assert cost(c, lambda: c.close(c.open_decode([*others, 1000]))) == 0
    assert cost(c, lambda: c.close(c.open_decode(others[:-1]))) == 0
    assert cost(c, lambda: c.close(c.open_decode(others))) == c.length(others[-1]) - 1
    stats = c.stats()
    assert (stats.realigns, stats.compacts) == (0, 0)


@pytest.mark.parametrize("rows", [8, 64])
def test_the_twin_copies_every_row(rows: int) -> None:
    """The same change in the rebuild cache, so that the figure above is known to be a difference."""
    c = resident(RebuildBatchCache, rows)
    others = [i for i in range(rows) if i != 3]
    assert cost(c, lambda: c.close(c.open_decode(others))) > (rows - 1) * (L - 2)


def test_rows_that_come_one_by_one_are_copied_a_bounded_number_of_times() -> None:
    c = IncrementalBatchCache(spec(layers=LAYERS, maximum=2048), OPS, budget=0, poison=False)
    joined: list[int] = []
    for i in range(200):
        started(c, {i: L})
        joined.append(i)
        c.close(c.open_decode(joined))
    lengths = sum(c.length(i) for i in joined)
    assert c.stats().moved_bytes // (LAYERS * c.spec.column_bytes) < 8 * lengths


def test_rows_are_allocated_in_blocks_of_at_most_a_quarter() -> None:
    for rows in range(1, 600):
        assert rows <= row_block(rows) <= max(rows + rows / 4, rows)


@pytest.mark.kills("compact/never", "compact/only-whole-blocks")
def test_at_the_maximum_the_dead_prefix_is_the_only_room_left() -> None:
    assert plan_columns(20, [7], 1, 20, 20).stored_len == 7
    c = started(IncrementalBatchCache(spec(maximum=20), OPS, poison=True), {1: 17, 2: 5})
    for _ in range(3):
        decode(c, [1, 2])
    c.drop(1)
    for _ in range(12):
        decode(c, [2])
    check_live(c, 2, 20, (None, None))
    assert c.stats().compacts == 1


def test_whole_blocks_of_dead_prefix_are_given_up_before_the_buffer_grows() -> None:
    plan = plan_columns(1024, [500, 300], 1, 1024, 4096)
    assert (plan.stored_len, plan.columns) == (500, 1024)
    plan = plan_columns(1024, [512, 300], 1, 1024, 4096)
    assert (plan.stored_len, plan.columns) == (512, 1024)
    plan = plan_columns(1024, [513, 300], 1, 1024, 4096)
    assert (plan.stored_len, plan.columns) == (1024, 1536)


def room(plan: ColumnPlan) -> tuple[int, int]:
    return plan.stored_len, plan.columns


@pytest.mark.kills("realign-cap/removed")
def test_a_longer_row_shifts_the_others_to_its_length_rounded_up_but_leaves_a_column() -> None:
    assert room(plan_columns(40, [40, 600], 1, 512, 4096)) == (640, 1024)
    assert room(plan_columns(500, [534, 500], 1, 512, 4096)) == (576, 1024)
    assert room(plan_columns(40, [40, 440], 1, 512, 4096)) == (448, 512)
    for columns in (512, 1000):
        assert plan_columns(40, [40, 990], 2, columns, 1000).stored_len == 998
    c = started(IncrementalBatchCache(spec(layers=1, maximum=600), OPS, poison=True), {1: 5})
    decode(c, [1])
    prefill_new(c, 2, 590)
    for _ in range(9):
        decode(c, [1, 2])
    check_live(c, 2, 599, (None,))
    check_live(c, 1, 15, (None,))
    assert c.stats().realigns == 1


def prefill_new(cache: Any, request_id: int, length: int) -> None:
    cache.add(request_id)
    prefill(cache, [request_id], [length])


def test_realigns_and_compacts_are_few_over_a_long_run() -> None:
    """600 decode steps with joins, leaves and unequal commits: all-row moves stay rare, and the budget holds."""
    rng, c = Random(5), IncrementalBatchCache(spec(layers=1, maximum=3000), OPS, poison=True)
    live: list[int] = []
    longest = 0
    for step in range(600):
        if len(live) < 6 and step % 7 == 0:
            prefill_new(c, step, rng.choice([5, 60, 700]))
            live.append(step)
        counts = [rng.randint(1, 3) for _ in live]
        view = c.open_decode(live, counts)
        write(view, live, counts, (None,), look=step % 50 == 0)
        c.close(view, [rng.randint(1, n) for n in counts])
        if step % 40 == 39:
            done = live.pop(rng.randrange(len(live)))
            check_live(c, done, c.length(done), (None,))
            c.drop(done)
        longest = max(longest, *(c.length(i) + 3 for i in live))
        assert c.batch.buffers.columns <= 512 * (longest // 512 + 2)
    c.trim()
    assert c.batch.buffers.columns <= 512 * (max(c.length(i) + 3 for i in live) // 512 + 2)
    stats = c.stats()
    assert stats.realigns <= 6
    assert stats.compacts <= 3
    assert stats.grows <= 8


@pytest.mark.kills("kv-budget/always-doubles")
def test_rows_double_within_the_budget_and_only_there() -> None:
    shape = spec(layers=1, maximum=512)
    row = 512 * shape.column_bytes
    doubled, exact = [1, 2, 4, 4, 8], [1, 2, 3, 4, 5]
    once = [1, 2, 4, 4, 5]
    for budget, expected in (
        (40 * row, doubled), (12 * row, once), (8 * row, once), (8 * row - 1, exact), (0, exact), (None, doubled)
    ):  # fmt: skip
        c = IncrementalBatchCache(shape, OPS, budget=budget, poison=False)
        rows = []
        for i in range(5):
            c.add(i)
            c.close(c.open_prefill([i], [3]))
            rows.append(c.pool.buffers.rows)
        assert rows == expected
        held = c.stats().allocated_bytes
        assert c.slack() == held - 5 * row
        c.trim()
        assert c.stats().allocated_bytes == 5 * row
        assert not budget or held <= budget


def test_bytes_for_bounds_what_is_held() -> None:
    shape = spec(layers=LAYERS, maximum=2000)
    for lengths in ([5], [511, 3], [512] * 9, [1400, 1, 1], [1999]):
        c = IncrementalBatchCache(shape, OPS, budget=0, poison=False)
        for i, length in enumerate(lengths):
            c.add(i)
            c.close(c.open_prefill([i], [length]))
            assert c.stats().allocated_bytes <= c.bytes_for([], lengths[: i + 1])
        c.close(c.open_decode(range(len(lengths))))
        assert 0 < c.stats().allocated_bytes <= c.bytes_for(lengths)
        r = RebuildBatchCache(shape, OPS, poison=False)
        for i, length in enumerate(lengths):
            r.add(i)
            r.close(r.open_prefill([i], [length]))
        r.close(r.open_decode(range(len(lengths))))
        assert 0 < r.stats().allocated_bytes <= r.bytes_for(lengths)
    assert bytes_for(shape, []) == 0


@pytest.mark.case("karpathy/nanochat#825")
@pytest.mark.parametrize("width", [4, 16, 256])
def test_a_ring_holds_memory_by_its_width_not_by_the_context(width: int) -> None:
    shape = CacheSpec(1, 2, 2048, (width,))
    for c in (RebuildBatchCache(shape, OPS, poison=False), IncrementalBatchCache(shape, OPS, poison=False)):
        c.add(1)
        c.close(c.open_prefill([1], [2000]))
        assert c.stats().allocated_bytes == width * shape.column_bytes
        for _ in range(40):
            c.close(c.open_decode([1]))
        assert c.stats().allocated_bytes == 2 * width * shape.column_bytes


def test_where_only_the_columns_grow_the_rows_stay() -> None:
    c = IncrementalBatchCache(spec(layers=1, maximum=2000), OPS, poison=True)
    started(c, dict.fromkeys(range(4), 510))
    for _ in range(5):
        decode(c, range(4))
    assert (c.batch.buffers.rows, c.batch.buffers.columns) == (4, 1024)
