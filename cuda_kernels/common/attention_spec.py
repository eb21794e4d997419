"""Attention, one query at a time: the meaning of attention_prefill and attention_decode_ragged.

Letters: T tokens, B rows of this call, R buffer rows, H query heads, G KV heads, C columns, D head dim.

    column      0 1 2 3 4 5 6 7        end = 8, lead_pad = 3: the query at column 7 has position 4
    row         . . . k k k k q        and sees columns max(3, 0, 7 + 1 - window) .. 7

Order of the sums: block j holds POSITIONS [64 j, 64 j + 64), so neither lead_pad nor a neighbour moves a boundary. Four
blocks are a segment. Blocks are folded in order into the segment's (m, l, acc): running maximum, sum of exponentials,
weighted sum of V. Segments are merged in order. Everything is float32; P is rounded to V's dtype before it meets V.
Source: Milakov and Gimelshein 2018, Online normalizer calculation for softmax.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cuda_kernels.common.types import F32, Array, IntArray

BLOCK = 64
SEGMENT = 4 * BLOCK


class Partial(NamedTuple):
    """Softmax so far of H heads: maximum [H], sum of exponentials [H], weighted sum of V [H, D]."""

    m: F32
    l: F32  # noqa: E741
    acc: F32


def attention(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    cu_seqlens: IntArray,
    row: IntArray,
    end: IntArray,
    lead_pad: IntArray | None,
    window: int | None,
    scale: float,
    bias: F32 | None,
) -> Array:
    """q [T, H, D], caches [R, G, C, D], cu_seqlens [B+1], row, end, lead_pad [B], bias [B, 1, n, C'] -> [T, H, D].

    Token i of row b is query i - cu[b] of its n_b, at column end[b] - n_b + (i - cu[b]). It sees column j iff
    max(lead_pad, 0, column + 1 - window) <= j <= column. Whatever it does not see is not read.

    A bias takes the place of causality: it is added to the scaled scores of all columns before end[b]; where it is -inf
    they are not seen. A query that sees nothing, and row -1, give zeros.
    """
    out = np.zeros_like(q)
    for b in np.flatnonzero(row >= 0):
        first_token, stop_token = int(cu_seqlens[b]), int(cu_seqlens[b + 1])
        pad = 0 if lead_pad is None else int(lead_pad[b])
        for i in range(first_token, stop_token):
            column = int(end[b]) - (stop_token - i)
            # guard[window-width]: a query sees exactly `window` keys, itself among them
            # mutant[window-width/one-too-wide]:
            #   - oldest = 0 if window is None else column + 1 - window
            #   + oldest = 0 if window is None else column - window
            oldest = 0 if window is None else column + 1 - window
            stop = column + 1 if bias is None else min(int(end[b]), bias.shape[3])
            seen = np.arange(max(pad, oldest, 0), stop)
            scores_bias = None
            if bias is not None:
                scores_bias = bias[b, 0, i - first_token]
                # guard[fully-masked]: a query whose keys are all hidden gives zeros, not the mean of hidden values
                # mutant[fully-masked/finite-fill]:
                #   - seen = seen[scores_bias[seen] != -np.inf]
                #   + scores_bias = np.maximum(scores_bias, np.float32(-1e30))
                seen = seen[scores_bias[seen] != -np.inf]
            out[i] = attend(q[i], k_cache[row[b]], v_cache[row[b]], seen, pad, scale, scores_bias)
    return out


def attend(
    q: Array, k: Array, v: Array, seen: npt.NDArray[np.signedinteger], pad: int, scale: float, bias: F32 | None
) -> F32:
    """One query q [H, D] over the seen columns of k and v [G, C, D] -> [H, D]."""
    heads, groups = q.shape[0], k.shape[0]
    # guard[grouped-heads]: consecutive query heads share a KV head; dealing them out in turn gives plausible text
    # mutant[grouped-heads/tiled]:
    #   - kv_head = np.arange(heads) // (heads // groups)
    #   + kv_head = np.arange(heads) % groups
    kv_head = np.arange(heads) // (heads // groups)
    total = empty(q)
    for segment in np.unique((seen - pad) // SEGMENT):
        part = empty(q)
        for block in range(4 * segment, 4 * segment + 4):
            columns = seen[(seen - pad) // BLOCK == block]
            if columns.size:
                s = scores(q, k[:, columns][kv_head], scale)
                part = fold(part, s if bias is None else s + bias[columns], v[:, columns][kv_head])
        total = merge(total, part)
    return total.acc / total.l[:, None] if seen.size else total.acc


def empty(q: Array) -> Partial:
    """The softmax of nothing: maximum -inf, sum 0."""
    heads = q.shape[0]
    return Partial(np.full(heads, -np.inf, np.float32), np.zeros(heads, np.float32), np.zeros(q.shape, np.float32))


def scores(q: Array, k: Array, scale: float) -> F32:
    """q [H, D], k [H, n, D] -> [H, n]."""
    products = np.asarray(k, np.float32) @ np.asarray(q, np.float32)[:, :, None]
    return products[:, :, 0] * np.float32(scale)


def fold(part: Partial, s: F32, v: Array) -> Partial:
    """Take one block in: s [H, n] its scores, v [H, n, D] its values."""
    m = np.maximum(part.m, s.max(axis=1))
    p, old = np.exp(s - m[:, None]), np.exp(part.m - m)
    rounded = p.astype(v.dtype).astype(np.float32)
    pv = (rounded[:, None] @ np.asarray(v, np.float32))[:, 0]
    return Partial(m, part.l * old + p.sum(axis=1), part.acc * old[:, None] + pv)


def merge(total: Partial, part: Partial) -> Partial:
    """Join two partials, the earlier positions first."""
    m = np.maximum(total.m, part.m)
    a, b = np.exp(total.m - m), np.exp(part.m - m)
    return Partial(m, total.l * a + part.l * b, total.acc * a[:, None] + part.acc * b[:, None])
