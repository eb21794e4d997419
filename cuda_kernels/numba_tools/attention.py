"""Pieces that both attention kernels share: who sees what, one block of keys, one merge.

    position   0 ........ 63 | 64 ...... 127 | ...       block j = positions [64 j, 64 j + 64)
    segment    0 .................................. 255 | four blocks, folded in order into (m, l, acc)

m is the running maximum of the scores, l the sum of their exponentials, acc the weighted sum of V. Segments are merged
in order. Positions are columns less the lead pad, so neither a lead pad nor a neighbour moves a boundary.
A block of 64 threads serves one (token, head): thread i scores position i of a block, then sums dims i, i + 64, ...
Source: Milakov and Gimelshein 2018, Online normalizer calculation for softmax.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.numba_tools.launch import absent
from cuda_kernels.numba_tools.words import cuda, exp32, narrow, widen
from cuda_kernels.raw.arrays import integers, same
from cuda_kernels.raw.shapes import check_head_dim

BLOCK = 64
BLOCKS = 4
SEGMENT = BLOCKS * BLOCK
DIMS_LIMIT = 256


@cuda.jit(device=True)
def sequence_of(cu_seqlens: Any, token: Any) -> Any:
    """The b with cu_seqlens[b] <= token < cu_seqlens[b + 1]; -1 for a token of no sequence."""
    low, high = 0, cu_seqlens.shape[0] - 1
    if token < cu_seqlens[0] or token >= cu_seqlens[high]:
        return -1
    while low + 1 < high:
        middle = (low + high) // 2
        if cu_seqlens[middle] <= token:
            low = middle
        else:
            high = middle
    return low


@cuda.jit(device=True)
def visible(cu_seqlens: Any, row: Any, end: Any, lead_pad: Any, window: Any, token: Any) -> Any:
    """(buffer row, lead pad, first position, last position) of what a token sees; nothing if first > last."""
    b = sequence_of(cu_seqlens, token)
    if b < 0 or row[b] < 0:
        return 0, 0, 0, -1
    pad = lead_pad[b] if lead_pad.size > 0 else 0
    column = end[b] - (cu_seqlens[b + 1] - token)
    # guard[numba-dead-prefix]: columns before the row's first live one hold other rows' leftovers
    # mutant[numba-dead-prefix/off-by-one]:
    #   - first = max(pad, 0)
    #   + first = max(pad - 1, 0)
    # mutant[numba-dead-prefix/removed]:
    #   - first = max(pad, 0)
    #   + first = 0
    first = max(pad, 0)
    if window > 0:
        # guard[numba-window]: a query sees exactly `window` keys, itself among them
        # mutant[numba-window/one-too-wide]:
        #   - first = max(first, column + 1 - window)
        #   + first = max(first, column - window)
        first = max(first, column + 1 - window)
    return row[b], pad, first - pad, column - pad


@cuda.jit(device=True)
def fold_segment(
    query: Any, k_cache: Any, v_cache: Any, r: Any, g: Any, pad: Any, segment: Any, first: Any, last: Any, scale: Any,
    scores: Any, weights: Any, acc: Any,
) -> Any:  # fmt: skip
    """Fold the visible part of one segment. query, acc [D] and scores, weights [64] are shared. Returns (m, l)."""
    me, dims = cuda.threadIdx.x, k_cache.shape[3]
    m, l = np.float32(-np.inf), np.float32(0.0)  # noqa: E741
    for d in range(me, dims, BLOCK):
        acc[d] = np.float32(0.0)
    for block in range(BLOCKS * segment, BLOCKS * segment + BLOCKS):
        start = block * BLOCK
        low, high = max(start, first), min(start + BLOCK - 1, last)
        if low > high:
            continue
        mine = low <= start + me <= high
        if mine:
            scores[me] = score(query, k_cache, r, g, start + me + pad) * scale
        cuda.syncthreads()

        top = m
        for i in range(low - start, high - start + 1):
            top = max(top, scores[i])
        if mine:
            weights[me] = exp32(scores[me] - top)
        # guard[numba-weights]: every thread sums over the weights of all
        # mutant[numba-weights/no-barrier]:
        #   - cuda.syncthreads()
        #   + pass
        cuda.syncthreads()

        # guard[numba-rescale]: what was summed under an older maximum shrinks when the maximum grows
        # mutant[numba-rescale/removed]:
        #   - old = exp32(m - top)
        #   + old = np.float32(1.0)
        old = exp32(m - top)
        l = l * old + total_of(weights, low - start, high - start)  # noqa: E741
        for d in range(me, dims, BLOCK):
            acc[d] = acc[d] * old + weighted_values(weights, v_cache, r, g, start + pad, low - start, high - start, d)
        m = top
        cuda.syncthreads()
    return m, l


@cuda.jit(device=True)
def score(query: Any, k_cache: Any, r: Any, g: Any, column: Any) -> Any:
    """The dot product of the query with one key."""
    s = np.float32(0.0)
    for d in range(k_cache.shape[3]):
        s += query[d] * widen(k_cache[r, g, column, d])
    return s


@cuda.jit(device=True)
def total_of(weights: Any, low: Any, high: Any) -> Any:
    """The sum of weights low .. high."""
    total = np.float32(0.0)
    for i in range(low, high + 1):
        total += weights[i]
    return total


@cuda.jit(device=True)
def weighted_values(weights: Any, v_cache: Any, r: Any, g: Any, column: Any, low: Any, high: Any, d: Any) -> Any:
    """Dim d of the weighted sum of values low .. high of a block that starts at `column`.

    What is not seen is not read: a weight of zero would not help, 0 * NaN is NaN.
    """
    total = np.float32(0.0)
    for i in range(low, high + 1):
        total += widen(narrow(weights[i], v_cache)) * widen(v_cache[r, g, column + i, d])
    return total


@cuda.jit(device=True)
def merge(m: Any, l: Any, part_m: Any, part_l: Any) -> Any:  # noqa: E741
    """Join two partials, the earlier positions first: (new maximum, new sum, factor of the old, factor of the new)."""
    top = max(m, part_m)
    old, new = exp32(m - top), exp32(part_m - top)
    # guard[numba-merge]: both sides are brought to the common maximum before they are added
    # mutant[numba-merge/unscaled]:
    #   - return top, l * old + part_l * new, old, new
    #   + return top, l + part_l, old, new
    return top, l * old + part_l * new, old, new


def checked(
    q: Any, k_cache: Any, v_cache: Any, cu_seqlens: Any, row: Any, end: Any, lead_pad: Any, window: Any, bias: Any
) -> tuple[Any, ...]:
    """The geometry as the kernels take it: (cu_seqlens, row, end, lead_pad or empty, window or 0).

    Raises ValueError, TypeError or KernelUnavailable for what a kernel would misread.
    """
    if bias is not None:
        raise KernelUnavailable("numba attention takes no explicit bias; use the reference backend for this mask")
    (_, heads, head_dim), (rows, groups, columns, _) = q.shape, k_cache.shape
    check_head_dim(head_dim)
    same("k_cache", k_cache, (rows, groups, columns, head_dim), q.dtype)
    same("v_cache", v_cache, (rows, groups, columns, head_dim), q.dtype)
    if heads % groups != 0:
        raise ValueError(f"{heads} query heads cannot share {groups} KV heads evenly")
    if window is not None and window < 1:
        raise ValueError(f"window {window}: a query sees at least itself")
    integers("cu_seqlens", cu_seqlens, len(row) + 1)
    for name, array in (("row", row), ("end", end), *([] if lead_pad is None else [("lead_pad", lead_pad)])):
        integers(name, array, len(row))
    return cu_seqlens, row, end, absent(lead_pad, 1, row), window or 0
