"""The order of sums inside attention, over many queries at once: blocks folded into segments, segments joined.

Letters: X any leading axes, L segments of all queries in one line, U queries, N blocks of a segment, r query
rows, D head dim. A segment is 4 blocks of 64 positions; it may leave out blocks at either end that are empty. Scores of
columns that a query does not see are -inf; blocks without a seen column are all -inf, and change no bit.

Arrays may lie in memory in any order of axes, and do: a tile runs along its query rows, a single query along positions.
NumPy's own sum along an axis would add in an order that depends on this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK, SEGMENT
from cuda_kernels.common.types import F32
from cuda_kernels.reference.spans import Index

PER_SEGMENT = SEGMENT // BLOCK
NOTHING = np.float32(np.finfo(np.float32).min / 2)  # the maximum of an empty block: finite, so that no inf - inf arises


class Partial(NamedTuple):
    """Softmax of some segments: maximum and sum of exponentials [X, r], weighted sum of V [X, r, D]."""

    m: F32
    total: F32
    acc: F32


def weigh(scores: F32) -> tuple[F32, F32]:
    """scores [X, N, r, 64] become exp(score - running maximum) IN PLACE; returns maxima and row sums [X, N, r].

    The running maximum of a block is the largest score of its segment up to and including the block.
    """
    maxima = scores.max(axis=-1)
    np.maximum.accumulate(maxima, axis=-2, out=maxima)
    np.maximum(maxima, NOTHING, out=maxima)
    scores -= maxima[..., None]
    np.exp(scores, out=scores)
    return maxima, sum_last(scores)


def sum_last(x: F32) -> F32:
    """x [X, 64] -> [X], by halves."""
    half = x.shape[-1] // 2
    while half:
        x = x[..., :half] + x[..., half:]
        half //= 2
    return x[..., 0]


def fold(maxima: F32, sums: F32, values: F32) -> Partial:
    """maxima, sums [X, N, r] and P @ V per block [X, N, r, D] (used up) -> the segments [X, r]."""
    shrink = np.exp(maxima[..., :-1, :] - maxima[..., 1:, :])
    total, acc = sums[..., 0, :], values[..., 0, :, :]
    for block in range(1, maxima.shape[-2]):
        old = shrink[..., block - 1, :]
        total = total * old + sums[..., block, :]
        acc *= old[..., None]
        acc += values[..., block, :, :]
    return Partial(maxima[..., -1, :], total, acc)


def join(old: Partial, new: Partial) -> Partial:
    """Earlier segments and a later one."""
    m = np.maximum(old.m, new.m)
    a, b = np.exp(old.m - m), np.exp(new.m - m)
    return Partial(m, old.total * a + new.total * b, old.acc * a[..., None] + new.acc * b[..., None])


def finish(whole: Partial) -> F32:
    """All segments of a query -> its output [X, r, D]."""
    # + 0.0 turns -0.0 into 0.0, as any further segment would: the count of segments must not show
    return (whole.acc + np.float32(0.0)) / whole.total[..., None]


@dataclass(frozen=True, eq=False)
class Joins:
    """Which segments of a line [L] belong together: where each query's first one lies [U], and for its second, third,
    .. which queries have one and where."""

    first: Index | slice
    further: list[tuple[Index | slice, Index | slice]]


def joins_of(counts: Index) -> Joins:
    """counts [U]: segments of each query, which lie in the line query after query."""
    most = int(counts.max())
    if (counts == most).all():  # every most-th segment: views instead of copies
        return Joins(slice(0, None, most), [(slice(None), slice(s, None, most)) for s in range(1, most)])
    first = np.cumsum(counts) - counts
    later = [(s, np.flatnonzero(counts > s)) for s in range(1, most)]
    return Joins(first, [(which, first[which] + s) for s, which in later])


def pick(line: Partial, which: Index | slice) -> Partial:
    """Some segments of a line [L, r]."""
    return Partial(line.m[which], line.total[which], line.acc[which])


def merge(line: Partial, joins: Joins) -> F32:
    """A line of segments [L, r], each query's joined in ascending order -> [U, r, D]."""
    whole = pick(line, joins.first)
    for which, at in joins.further:
        for all_of_it, part in zip(whole, join(pick(whole, which), pick(line, at)), strict=True):
            all_of_it[which] = part
    return finish(whole)
