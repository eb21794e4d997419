"""The order of sums inside attention, over many queries at once: blocks folded into segments, segments merged.

Letters: X any leading axes, the last of them segments; G KV heads, L segments of all queries in one line, U queries,
N blocks of a segment, r query rows of a tile, D head dim. A segment is 4 blocks of 64 positions; a lone segment may
leave out its last, empty ones. Scores of columns that a query does not see are -inf; blocks without a seen column are
all -inf, and change no bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK, SEGMENT
from cuda_kernels.common.types import F32
from cuda_kernels.reference.spans import Index

PER_SEGMENT = SEGMENT // BLOCK
NOTHING = np.float32(np.finfo(np.float32).min / 2)  # the maximum of an empty block: finite, so that no inf - inf arises


def weigh(scores: F32) -> tuple[F32, F32]:
    """scores [X, N, r, 64] become exp(score - running maximum) IN PLACE; returns maxima and row sums [X, N, r].

    The running maximum of a block is the largest score of its segment up to and including the block.
    """
    maxima = scores.max(axis=-1)
    np.maximum.accumulate(maxima, axis=-2, out=maxima)
    np.maximum(maxima, NOTHING, out=maxima)
    scores -= maxima[..., None]
    np.exp(scores, out=scores)
    return maxima, np.add.reduce(scores, axis=-1)


def fold(maxima: F32, sums: F32, values: F32) -> tuple[F32, F32, F32]:
    """maxima, sums [X, N, r] and P @ V per block [X, N, r, D] (used up) -> segments: m, total [X, r], acc [X, r, D]."""
    shrink = np.exp(maxima[..., :-1, :] - maxima[..., 1:, :])
    total, acc = sums[..., 0, :], values[..., 0, :, :]
    for block in range(1, maxima.shape[-2]):
        old = shrink[..., block - 1, :]
        total = total * old + sums[..., block, :]
        acc *= old[..., None]
        acc += values[..., block, :, :]
    return maxima[..., -1, :], total, acc


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


def merge(m: F32, total: F32, acc: F32, joins: Joins) -> F32:
    """Segments m, total [G, L, r] and acc [G, L, r, D] (used up), each query's joined in ascending order ->
    [G, U, r, D]."""
    m_all, sum_all = m[:, joins.first], total[:, joins.first]
    # + 0.0 turns -0.0 into 0.0, as any further segment would: the count of segments must not show
    out: F32 = acc[:, joins.first] + np.float32(0.0)
    for which, at in joins.further:
        old, new = m_all[:, which], m[:, at]
        larger = np.maximum(old, new)
        a, b = np.exp(old - larger), np.exp(new - larger)
        sum_all[:, which] = sum_all[:, which] * a + total[:, at] * b
        out[:, which] = out[:, which] * a[..., None] + acc[:, at] * b[..., None]
        m_all[:, which] = larger
    out /= sum_all[..., None]
    return out
