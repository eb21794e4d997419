"""The refusal suite: whatever cannot be batched leaves every row as it was, and says which layer, row and lengths."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kvfake import OPS, check_live, decode, prefill, spec, started

from teachkv.errors import PlanRefused, RowAtMaximum
from teachkv.kv import IncrementalBatchCache, RebuildBatchCache
from teachkv.kv.admission import seat_slots
from teachkv.kv.full_slot import FullSlot
from teachkv.kv.memory import Memory

Make = Callable[..., Any]
LAYERS, LENGTHS = 3, {1: 9, 2: 4, 3: 6}


@pytest.fixture(params=[RebuildBatchCache, IncrementalBatchCache])
def cache(request: pytest.FixtureRequest) -> Make:
    return lambda **shape: request.param(spec(**shape), OPS, poison=True)


def stored(cache: Any) -> list[Any]:
    """Every byte that a sequence owns, and where it begins: what a refusal must not touch."""
    if isinstance(cache, RebuildBatchCache):
        return [
            (request_id, rows.lead_pad, slot.length, side.tobytes() if side is not None else b"")
            for request_id, rows in cache._rows.items()
            for slot in rows.slots
            for side in (slot.k, slot.v)
        ]
    seats = [(i, s.row, s.staged, s.lead_pad, s.end, s.ring_end, s.epoch) for i, s in cache._seats.items()]
    buffers = [cache.batch.buffers, cache.pool.buffers]
    return [*seats, *(side.tobytes() for b in buffers for pair in b.arrays.values() for side in pair)]


def refused(cache: Any, ids: list[int], **where: Any) -> PlanRefused:
    before, epoch = stored(cache), cache.geometry_epoch
    error: Exception | None = None
    try:
        cache.open_decode(ids)
    except Exception as raised:
        error = raised
    assert stored(cache) == before
    assert cache.geometry_epoch == epoch
    assert isinstance(error, PlanRefused), error
    for name, value in where.items():
        assert getattr(error, name) == value
    return error


def goes_on(cache: Any, ids: list[int], lengths: dict[int, int], rings: Any) -> None:
    """The other requests finish after a refusal: here, each alone."""
    for request_id in ids:
        decode(cache, [request_id])
    for request_id, length in lengths.items():
        check_live(cache, request_id, length + (request_id in ids), rings)


@pytest.mark.case("ml-explore/mlx-lm#983")
@pytest.mark.kills("postcondition/removed", "join-postcondition/removed")
def test_a_mixed_batch_with_a_ring_is_refused(cache: Make) -> None:
    rings = (None, 4, None)
    c = started(cache(rings=rings), LENGTHS)
    refused(c, [1, 2, 3], row=1, lengths=(9, 4, 6))
    goes_on(c, [1, 2, 3], LENGTHS, rings)


@pytest.mark.kills("postcondition/removed", "join-postcondition/removed")
def test_a_mixed_batch_of_rings_alone_is_refused(cache: Make) -> None:
    c = started(cache(rings=(3, 4)), {1: 9, 2: 4})
    refused(c, [2, 1], layer=0, row=1, lengths=(4, 9))
    goes_on(c, [1, 2], {1: 9, 2: 4}, (3, 4))


@pytest.mark.kills("postcondition/removed", "join-postcondition/removed")
def test_a_row_that_outgrew_its_ring_cohort_is_refused(cache: Make) -> None:
    rings = (None, 4)
    c = started(cache(rings=rings), {1: 5, 2: 5})
    decode(c, [1, 2])
    decode(c, [2])
    refused(c, [1, 2], row=1, lengths=(6, 7))
    goes_on(c, [1, 2], {1: 6, 2: 7}, rings)


@pytest.mark.kills("row-at-maximum/removed")
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_row_at_its_maximum_ends_alone(cache: Make, row: int) -> None:
    lengths = dict(zip((1, 2, 3), (9, 4, 6), strict=True)) | {row + 1: 12}
    c = started(cache(layers=LAYERS, maximum=12), lengths)
    error = refused(c, [1, 2, 3], row=row, lengths=tuple(lengths.values()))
    assert isinstance(error, RowAtMaximum)
    others = [i for i in (1, 2, 3) if i != row + 1]
    decode(c, others)
    for request_id in others:
        check_live(c, request_id, lengths[request_id] + 1, (None,) * LAYERS)
    check_live(c, row + 1, 12, (None,) * LAYERS)


def test_speculation_that_does_not_fit_is_refused_but_no_row_is_to_blame(cache: Make) -> None:
    c = started(cache(layers=1, maximum=12), {1: 10, 2: 4})
    before = stored(c)
    with pytest.raises(PlanRefused) as caught:
        c.open_decode([1, 2], [1, 5])
    assert not isinstance(caught.value, RowAtMaximum)
    assert stored(c) == before
    c = started(cache(rings=(4,)), {1: 6, 2: 6})
    with pytest.raises(PlanRefused, match="ring layer refuses"):
        c.open_decode([1, 2], [2, 2])


def faulty(monkeypatch: pytest.MonkeyPatch, layer: int, request_id: int, cache: Any) -> None:
    """Slot `layer` of one sequence answers that it cannot be padded, and would fail if it were."""
    blocked = slot_key(cache, request_id, layer)
    honest, pads = FullSlot.would_align, FullSlot.front_padded

    def would_align(slot: FullSlot, target: int) -> bool:
        return slot_memory(slot) != blocked and honest(slot, target)

    monkeypatch.setattr(FullSlot, "would_align", would_align)
    assert pads is FullSlot.front_padded


def slot_memory(slot: FullSlot) -> int:
    return 0 if slot.k is None else int(slot.k.__array_interface__["data"][0])


def slot_key(cache: Any, request_id: int, layer: int) -> int:
    if isinstance(cache, RebuildBatchCache):
        return slot_memory(cache._rows[request_id].slots[layer])  # type: ignore[arg-type]
    slots = seat_slots(cache._seats[request_id], cache.prototypes, cache.batch, cache.pool)
    return slot_memory(slots[layer])  # type: ignore[arg-type]


@pytest.mark.kills("all-or-nothing/no-preflight", "all-or-nothing/pads-before-asking", "join/no-preflight")
@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_refusal_does_not_leave_a_half_aligned_batch(
    cache: Make, layer: int, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = started(cache(layers=LAYERS), LENGTHS)
    with monkeypatch.context() as patched:
        faulty(patched, layer, row + 1, c)
        refused(c, [1, 2, 3], layer=layer, row=row, lengths=(9, 4, 6))
    decode(c, [1, 2, 3])
    for request_id, length in LENGTHS.items():
        check_live(c, request_id, length + 1, (None,) * LAYERS)


def test_the_error_counts_rows_of_the_part_not_of_those_that_join(monkeypatch: pytest.MonkeyPatch) -> None:
    c = started(IncrementalBatchCache(spec(layers=LAYERS), OPS, poison=True), LENGTHS)
    decode(c, [1, 2])
    faulty(monkeypatch, 1, 3, c)
    refused(c, [1, 2, 3], layer=1, row=2, lengths=(10, 5, 6))


def test_capacity_over_the_maximum_is_refused_with_rows_untouched() -> None:
    c = started(RebuildBatchCache(spec(layers=LAYERS, maximum=16), OPS, poison=True), LENGTHS)
    slot = c._rows[2].slots[1]
    assert isinstance(slot, FullSlot)
    assert slot.k is not None
    slot.k = np.concatenate([slot.k, slot.k], axis=1)
    refused(c, [1, 2, 3], layer=1, row=1)
    goes_on(c, [1, 3], {1: 9, 3: 6}, (None,) * LAYERS)


def failing_at(monkeypatch: pytest.MonkeyPatch, when: int) -> list[int]:
    """The `when`-th allocation from now on fails; returns the count so far."""
    calls = [0]
    for name in ("buffer", "strip"):
        honest = getattr(Memory, name)

        def allocate(memory: Memory, *args: Any, honest: Any = honest) -> Any:
            calls[0] += 1
            if calls[0] == when:
                raise MemoryError
            return honest(memory, *args)

        monkeypatch.setattr(Memory, name, allocate)
    return calls


@pytest.mark.case("Avarok-Cybersecurity/atlas#375")
@pytest.mark.parametrize(
    ("rings", "lengths"), [((None, None), LENGTHS), ((None, 4), {1: 6, 2: 6, 3: 6})], ids=["ragged", "ring"]
)
def test_an_allocation_failure_anywhere_loses_nothing(
    cache: Make, rings: Any, lengths: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decode, a prompt chunk, decode: each allocation fails once, then all goes on."""
    steps = [(decode, [1, 2, 3])] * 4 + [(lambda c, ids: prefill(c, ids, [5, 5]), [2, 3])] + [(decode, [2, 3])] * 4
    when = 0
    while True:
        when += 1
        c, known = started(cache(rings=rings), lengths), dict(lengths)
        with monkeypatch.context() as patched:
            calls = failing_at(patched, when)
            for act, ids in steps:
                for attempt in (1, 2):
                    try:
                        act(c, ids)
                    except MemoryError:
                        assert attempt == 1
                        c.invalidate()
                        continue
                    break
                known |= {i: known[i] + (1 if act is decode else 5) for i in ids}
                for request_id, length in known.items():
                    assert c.length(request_id) == length
        for request_id, length in known.items():
            check_live(c, request_id, length, rings)
        if calls[0] < when:
            break
    assert when > 10


def test_refusals_hold_without_assertions() -> None:
    """The same guards under `python -O`, in a process of its own; checked without `assert`, which -O removes."""
    script = Path(__file__).with_name("refuse_without_assertions.py")
    run = subprocess.run([sys.executable, "-O", str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout.split()) == (0, ["refused"] * 6), run.stderr
