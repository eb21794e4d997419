"""The order of sums inside attention, over many queries at once: blocks folded into segments, segments merged.

Letters: X any leading axes, S segments, N blocks of a segment, r query rows of a tile, D head dim. A segment is 4
blocks of 64 positions; a lone segment may leave out its last, empty ones. Scores of columns that a query does not see
are -inf; blocks without a seen column are all -inf, and change no bit.
"""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK, SEGMENT
from cuda_kernels.common.types import F32

PER_SEGMENT = SEGMENT // BLOCK
NOTHING = np.float32(np.finfo(np.float32).min / 2)  # the maximum of an empty block: finite, so that no inf - inf arises


def laid_out(segments: int, used: int) -> tuple[int, int]:
    """(S, N) for `used` blocks from the first block of the first segment on."""
    return (1, used) if segments == 1 else (segments, PER_SEGMENT)


def weigh(scores: F32) -> tuple[F32, F32]:
    """scores [X, S, N, r, 64] become exp(score - running maximum) IN PLACE; returns maxima and row sums [X, S, N, r].

    The running maximum of a block is the largest score of its segment up to and including the block.
    """
    maxima = scores.max(axis=-1)
    np.maximum.accumulate(maxima, axis=-2, out=maxima)
    np.maximum(maxima, NOTHING, out=maxima)
    scores -= maxima[..., None]
    np.exp(scores, out=scores)
    return maxima, np.add.reduce(scores, axis=-1)


def fold_and_merge(maxima: F32, sums: F32, values: F32) -> F32:
    """maxima, sums [X, S, N, r] and P @ V per block [X, S, N, r, D] (used up) -> attention output [X, r, D]."""
    shrink = np.exp(maxima[..., :-1, :] - maxima[..., 1:, :])
    total, acc = sums[..., 0, :], values[..., 0, :, :]
    for block in range(1, maxima.shape[-2]):
        old = shrink[..., block - 1, :]
        total = total * old + sums[..., block, :]
        acc *= old[..., None]
        acc += values[..., block, :, :]
    return merge(maxima[..., -1, :], total, acc)


def merge(m: F32, total: F32, acc: F32) -> F32:
    """Segment partials m, total [X, S, r] and acc [X, S, r, D], joined in ascending order -> [X, r, D]."""
    m_all, sum_all = m[..., 0, :], total[..., 0, :]
    # + 0.0 turns -0.0 into 0.0, as any further segment would: the count of segments must not show
    out: F32 = acc[..., 0, :, :] + np.float32(0.0)
    for segment in range(1, m.shape[-2]):
        m_new = np.maximum(m_all, m[..., segment, :])
        a, b = np.exp(m_all - m_new), np.exp(m[..., segment, :] - m_new)
        sum_all = sum_all * a + total[..., segment, :] * b
        out *= a[..., None]
        out += acc[..., segment, :, :] * b[..., None]
        m_all = m_new
    out /= sum_all[..., None]
    return out
