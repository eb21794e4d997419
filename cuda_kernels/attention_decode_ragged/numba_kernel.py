"""attention_decode_ragged, told in Numba: many blocks share one long row, and a second kernel joins what they found.

    row       . . . . k k k k k k k k k k q            lead pad 4; segments count from the first live column
    blocks            [ seg 0 ][ seg 1 ][ ]            one block per (token, head, segment) writes (m, l, acc)
    merge             ( 0 + 1 ) + 2                    one block per (token, head), in ascending order

A decoding row has one query, so a block per (token, head) would leave most of a GPU idle on long rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.common.types import F32, Array, IntArray
from cuda_kernels.numba_tools.attention import BLOCK, DIMS_LIMIT, SEGMENT, checked, fold_segment, merge, visible
from cuda_kernels.numba_tools.launch import ceil_div, launch
from cuda_kernels.numba_tools.words import cuda, narrow, widen
from cuda_kernels.raw.arrays import empty


@cuda.jit
def attend_segment(
    q: Any, k_cache: Any, v_cache: Any, cu_seqlens: Any, row: Any, end: Any, lead_pad: Any, window: Any, scale: Any,
    sums: Any, parts: Any,
) -> None:  # fmt: skip
    """q [T, H, D], caches [R, G, C, D] -> sums [S, T, H, 2] (m and l), parts [S, T, H, D]; S segments. 64 threads.

    Slots of segments that the token does not see are left as they are.
    """
    heads, dims, me = q.shape[1], q.shape[2], cuda.threadIdx.x
    t, h, slot = cuda.blockIdx.x // heads, cuda.blockIdx.x % heads, cuda.blockIdx.y
    # guard[numba-decode-heads]: consecutive query heads share a KV head
    # mutant[numba-decode-heads/tiled]:
    #   - g = h // (heads // k_cache.shape[1])
    #   + g = h % k_cache.shape[1]
    g = h // (heads // k_cache.shape[1])
    r, pad, first, last = visible(cu_seqlens, row, end, lead_pad, window, t)
    segment = first // SEGMENT + slot
    if segment > last // SEGMENT:
        return
    query = cuda.shared.array(DIMS_LIMIT, np.float32)
    scores = cuda.shared.array(BLOCK, np.float32)
    weights = cuda.shared.array(BLOCK, np.float32)
    part = cuda.shared.array(DIMS_LIMIT, np.float32)
    for d in range(me, dims, BLOCK):
        query[d] = widen(q[t, h, d])
    # guard[numba-query-shared]: every thread multiplies with the whole query, of which it fetched a part
    # mutant[numba-query-shared/removed]:
    #   - cuda.syncthreads()
    #   + pass
    cuda.syncthreads()
    m, l = fold_segment(  # noqa: E741
        query, k_cache, v_cache, r, g, pad, segment, first, last, scale, scores, weights, part
    )
    if me == 0:
        sums[slot, t, h, 0], sums[slot, t, h, 1] = m, l
    for d in range(me, dims, BLOCK):
        parts[slot, t, h, d] = part[d]


@cuda.jit
def merge_segments(
    sums: Any, parts: Any, cu_seqlens: Any, row: Any, end: Any, lead_pad: Any, window: Any, out: Any
) -> None:
    """sums [S, T, H, 2], parts [S, T, H, D] -> out [T, H, D]: the segments of each token, the oldest first."""
    heads, dims = out.shape[1], out.shape[2]
    t, h = cuda.blockIdx.x // heads, cuda.blockIdx.x % heads
    _, _, first, last = visible(cu_seqlens, row, end, lead_pad, window, t)
    for d in range(cuda.threadIdx.x, dims, BLOCK):
        m, l, acc = np.float32(-np.inf), np.float32(0.0), np.float32(0.0)  # noqa: E741
        # guard[numba-merge-all]: slots count from the first segment that the token sees
        # mutant[numba-merge-all/first-only]:
        #   - for slot in range(last // SEGMENT - first // SEGMENT + 1):
        #   + for slot in range(min(1, last // SEGMENT - first // SEGMENT + 1)):
        for slot in range(last // SEGMENT - first // SEGMENT + 1):
            m, l, old, new = merge(m, l, sums[slot, t, h, 0], sums[slot, t, h, 1])  # noqa: E741
            acc = acc * old + parts[slot, t, h, d] * new
        out[t, h, d] = narrow(acc / l if last >= first else np.float32(0.0), out)


def attention_decode_ragged(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    cu_seqlens: IntArray,
    row: IntArray,
    end: IntArray,
    lead_pad: IntArray | None = None,
    window: int | None = None,
    scale: float = 1.0,
    bias: F32 | None = None,
) -> Array:
    """q [T, H, D], caches [R, G, C, D], cu_seqlens [B+1], row, end, lead_pad [B] -> [T, H, D]. A bias is refused."""
    geometry = checked(q, k_cache, v_cache, cu_seqlens, row, end, lead_pad, window, bias)
    tokens, heads, dim = q.shape
    slots = slots_for(k_cache.shape[2], window)
    sums = empty(q, (slots, tokens, heads, 2), np.float32)
    parts = empty(q, (slots, tokens, heads, dim), np.float32)
    out: Array = empty(q, q.shape)
    launch(attend_segment, (tokens * heads, slots, 1), BLOCK, q, k_cache, v_cache, *geometry, float(scale), sums, parts)
    launch(merge_segments, (tokens * heads, 1, 1), BLOCK, sums, parts, *geometry, out)
    return out


def slots_for(columns: int, window: int | None) -> int:
    """The most segments that one token can see: known from shapes alone, so no length has to come from the device.

    A ring (negative lead pad) may start anywhere in a segment, hence one more than its columns fill.
    """
    most = columns if window is None else min(columns, window)
    # guard[numba-slots]: a run that starts inside a segment touches one more than its length fills
    # mutant[numba-slots/tight]:
    #   - return ceil_div(most - 1, SEGMENT) + 1
    #   + return ceil_div(most, SEGMENT)
    return ceil_div(most - 1, SEGMENT) + 1
