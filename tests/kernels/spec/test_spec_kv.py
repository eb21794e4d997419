"""Moves of K/V columns: shift, join, strip, gather, scatter, all on integers that one can check by eye."""

from typing import Any

import numpy as np
import pytest

from cuda_kernels.registry import get

ALIGN, STRIP, GATHER, SCATTER = (get(f"kv_{name}", "spec") for name in ("align", "strip", "gather", "scatter"))


def numbered(rows: int, columns: int) -> Any:
    """[rows, 2, columns, 3]: 1000 * row + 100 * head + column, in every channel."""
    r, g, c = np.ix_(range(rows), range(2), range(columns))
    return np.repeat((1000 * r + 100 * g + c)[..., None], 3, -1).astype(np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


@pytest.mark.parametrize("shift", [-3, -1, 1, 3])
def test_a_run_may_overlap_itself(shift: int) -> None:
    cache, before = numbered(2, 10), numbered(2, 10)
    ALIGN(cache, ints(1), ints(3), cache, ints(1), ints(3 + shift), ints(4))
    assert np.array_equal(cache[1, :, 3 + shift : 7 + shift], before[1, :, 3:7])
    assert np.array_equal(cache[0], before[0])
    outside = [c for c in range(10) if not 3 + shift <= c < 7 + shift]
    assert np.array_equal(cache[1][:, outside], before[1][:, outside])


def test_runs_join_from_another_buffer() -> None:
    source, cache = numbered(3, 6), np.full((2, 2, 9, 3), np.nan, np.float32)
    ALIGN(source, ints(2, 0), ints(0, 2), cache, ints(0, 1), ints(4, 7), ints(5, 2))
    assert cache[0, 0, 4:, 0].tolist() == [2000, 2001, 2002, 2003, 2004]
    assert cache[1, 1, 7:, 0].tolist() == [102, 103]
    assert np.isnan(cache).sum() == 2 * 3 * (9 * 2 - 7)


def test_no_runs_and_empty_runs_move_nothing() -> None:
    cache = numbered(1, 4)
    ALIGN(cache, ints(), ints(), cache, ints(), ints(), ints())
    ALIGN(cache, ints(0), ints(4), cache, ints(0), ints(0), ints(0))
    assert np.array_equal(cache, numbered(1, 4))


@pytest.mark.parametrize(
    "move", [(2, 0, 0, 0, 1), (0, -1, 0, 0, 1), (0, 0, 0, 3, 2), (0, 3, 0, 0, 2), (0, 0, -1, 0, 1), (0, 0, 5, 0, 1)]
)
def test_a_run_outside_moves_nothing_at_all(move: tuple[int, ...]) -> None:
    """All or nothing: the good run before the bad one must not have moved either."""
    cache = numbered(2, 4)
    columns = [ints(good, bad) for good, bad in zip((1, 0, 1, 1, 3), move, strict=True)]
    with pytest.raises(ValueError, match="kv_align"):
        ALIGN(cache, columns[0], columns[1], cache, columns[2], columns[3], columns[4])
    assert np.array_equal(cache, numbered(2, 4))


def test_stripped_and_gathered_rows_are_owned() -> None:
    cache = numbered(2, 12)
    strip, blocks = STRIP(cache, 1, 3, 8), GATHER(cache, 1, 2, 2, 4)
    cache[:] = np.nan
    assert strip[0, :, 0].tolist() == [1003, 1004, 1005, 1006, 1007]
    assert blocks[1, 0, :, 0].tolist() == [1006, 1007, 1008, 1009]
    assert blocks.shape == (2, 2, 4, 3)
    assert blocks.flags.c_contiguous
    assert STRIP(cache, 0, 5, 5).shape == (2, 0, 3)


def test_scatter_is_the_inverse_of_gather() -> None:
    cache, other = numbered(2, 12), np.full((3, 2, 20, 3), np.nan, np.float32)
    SCATTER(GATHER(cache, 1, 2, 3, 3), other, 2, 7)
    assert np.array_equal(other[2, :, 7:16], cache[1, :, 2:11])
    assert np.isnan(other).sum() == other.size - 2 * 9 * 3


@pytest.mark.parametrize("place", [(2, 0, 4), (-1, 0, 4), (0, 10, 14), (0, -1, 3), (0, 5, 4)])
def test_strip_refuses_what_is_not_there(place: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="kv_strip"):
        STRIP(numbered(2, 12), *place)


@pytest.mark.parametrize(("row", "start"), [(2, 0), (-1, 0), (0, 5), (0, -1)])
def test_blocks_must_lie_inside_the_row(row: int, start: int) -> None:
    cache = numbered(2, 12)
    with pytest.raises(ValueError, match="kv_gather"):
        GATHER(cache, row, start, 2, 4)
    with pytest.raises(ValueError, match="kv_scatter"):
        SCATTER(np.zeros((2, 2, 4, 3), np.float32), cache, row, start)
    assert np.array_equal(cache, numbered(2, 12))
