"""Both slots alone: growth to the last column, rollback, and a ring that is right for every query of a chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kvfake import OPS, code, spec

from teachkv.errors import OptionError, SlotError
from teachkv.kv.full_slot import FullSlot
from teachkv.kv.memory import Memory
from teachkv.kv.spec import CacheSpec
from teachkv.kv.window_slot import WindowSlot


def full(maximum: int) -> FullSlot:
    return FullSlot(Memory(OPS, poison=True), spec(layers=1, maximum=maximum))


def ring(width: int) -> WindowSlot:
    return WindowSlot(Memory(OPS, poison=True), spec(rings=(width,), maximum=100), width)


def append(slot: Any, count: int) -> Any:
    rows = code(1, 0, np.arange(slot.length, slot.length + count))
    return slot.append(rows, -rows)


def refusal(act: Any) -> type[Exception] | None:
    """What it raised; a test that asserts on this fails by assertion also when the error is of another kind."""
    try:
        act()
    except Exception as error:
        return type(error)
    return None


@pytest.mark.case("GeeeekExplorer/nano-vllm#150")
@pytest.mark.parametrize("length", [3, 4, 5, 511, 512, 513, 1023, 1024, 1025])
def test_a_new_block_exactly_when_the_token_to_be_written_starts_one(length: int) -> None:
    slot = full(2048)
    append(slot, length)
    before = slot.capacity
    append(slot, 1)
    assert before == -(-length // 512) * 512
    assert slot.capacity == (before + 512 if length % 512 == 0 else before)


@pytest.mark.case("GeeeekExplorer/nano-vllm#150")
@pytest.mark.kills("growth/whole-blocks-only")
def test_a_maximum_that_is_no_multiple_of_the_block_is_usable_to_its_end() -> None:
    slot = full(1000)
    for _ in range(1000):
        append(slot, 1)
    assert (slot.length, slot.capacity) == (1000, 1000)
    np.testing.assert_array_equal(slot.content()[0], code(1, 0, np.arange(1000)))


@pytest.mark.kills("slot-full/removed")
def test_a_slot_refuses_a_token_past_its_maximum() -> None:
    slot = full(5)
    append(slot, 4)
    assert refusal(lambda: append(slot, 2)) is SlotError
    np.testing.assert_array_equal(slot.content()[0], code(1, 0, np.arange(4)))


@pytest.mark.kills("set-len/checks-capacity-only")
def test_set_len_does_not_extend_over_columns_never_written() -> None:
    slot = full(100)
    append(slot, 6)
    slot.set_len(4)
    for wrong in (5, 6, 100, -1):
        with pytest.raises(SlotError, match="cannot be set"):
            slot.set_len(wrong)
    assert slot.length == 4


@pytest.mark.case("Dao-AILab/flash-attention#1745")
def test_slack_and_refused_columns_are_poison() -> None:
    slot = full(100)
    append(slot, 6)
    slot.set_len(4)
    assert slot.k is not None
    assert np.isnan(slot.k[:, 4:]).all()
    assert np.isnan(slot.front_padded(9).content()[0][:, :5]).all()


def test_padding_moves_columns_and_rotates_nothing() -> None:
    slot = full(100)
    append(slot, 6)
    padded = slot.front_padded(9)
    np.testing.assert_array_equal(padded.content()[1][:, 3:], -code(1, 0, np.arange(6)))
    np.testing.assert_array_equal(padded.stripped(3).content()[0], slot.content()[0])


@pytest.mark.case("ggml-org/llama.cpp#18727")
@pytest.mark.kills("ring-chunk/judged-by-the-newest")
@pytest.mark.parametrize("width", [1, 3, 4, 5])
@pytest.mark.parametrize("total", [3, 4, 5, 8, 9, 17])
def test_every_query_of_a_chunk_finds_its_whole_window(width: int, total: int) -> None:
    """Lengths around w and 2w, every chunk size: each query sees exactly the last w keys, itself among them."""
    for chunk in range(1, total + 1):
        slot, position = ring(width), 0
        while position < total:
            tokens = min(chunk, total - position)
            k, v = append(slot, tokens)
            first = position + tokens - k.shape[1]
            for p in range(position, position + tokens):
                start = max(0, p + 1 - width)
                assert first <= start
                np.testing.assert_array_equal(k[:, start - first : p + 1 - first], code(1, 0, np.arange(start, p + 1)))
                np.testing.assert_array_equal(v[:, start - first : p + 1 - first], -code(1, 0, np.arange(start, p + 1)))
            position += tokens
        kept = min(total, width)
        np.testing.assert_array_equal(slot.content()[0], code(1, 0, np.arange(total - kept, total)))


@pytest.mark.kills("ring/keeps-the-first")
def test_a_ring_keeps_the_last_w_positions_and_no_more_memory() -> None:
    slot = ring(4)
    append(slot, 90)
    append(slot, 1)
    assert slot.length == 91
    assert slot.capacity == 4
    np.testing.assert_array_equal(slot.content()[0], code(1, 0, np.arange(87, 91)))


@pytest.mark.case("mybigday/llama.rn#396")
@pytest.mark.kills("ring-rollback/removed")
def test_a_ring_refuses_to_roll_back_once_it_dropped_anything() -> None:
    slot = ring(4)
    append(slot, 4)
    slot.set_len(2)
    np.testing.assert_array_equal(slot.content()[0], code(1, 0, np.arange(2)))
    append(slot, 3)
    slot.set_len(5)
    with pytest.raises(SlotError, match="cannot roll back"):
        slot.set_len(4)
    with pytest.raises(SlotError, match="cannot be set"):
        slot.set_len(6)
    assert slot.length == 5


def test_a_ring_reaches_no_length_but_its_own() -> None:
    slot = ring(4)
    append(slot, 6)
    assert not slot.supports_per_sequence_len
    assert slot.front_padded(6) is slot
    with pytest.raises(SlotError, match="cannot be padded"):
        slot.front_padded(7)
    with pytest.raises(SlotError, match="no dead prefix"):
        slot.stripped(1)
    with pytest.raises(SlotError, match="cannot take"):
        append(slot, 95)


def test_window_layers_are_masked_by_default_and_rings_on_request() -> None:
    shape: Any = {"kv_heads": 1, "head_dim": 4, "maximum": 8}
    assert CacheSpec.for_windows([4, None], **shape).rings == (None, None)
    assert CacheSpec.for_windows([4, None], window_cache="ring", **shape).rings == (4, None)
    with pytest.raises(OptionError, match="window_cache"):
        CacheSpec.for_windows([4], window_cache="full", **shape)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="at least one position"):
        CacheSpec(1, 4, 8, (0,))
    with pytest.raises(OptionError, match="at least one column"):
        CacheSpec(1, 4, 0, (None,))
