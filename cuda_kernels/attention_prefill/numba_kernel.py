"""attention_prefill, told in Numba: one block per (token, head) walks its segments from the oldest to the newest."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.common.types import F32, Array, IntArray
from cuda_kernels.numba_tools.attention import BLOCK, DIMS_LIMIT, SEGMENT, checked, fold_segment, merge, visible
from cuda_kernels.numba_tools.launch import launch
from cuda_kernels.numba_tools.words import cuda, narrow, widen
from cuda_kernels.raw.arrays import empty


@cuda.jit
def attend(
    q: Any, k_cache: Any, v_cache: Any, cu_seqlens: Any, row: Any, end: Any, lead_pad: Any, window: Any, scale: Any,
    out: Any,
) -> None:  # fmt: skip
    """q, out [T, H, D], caches [R, G, C, D], cu_seqlens [B+1], row, end, lead_pad [B]. 64 threads."""
    heads, dims, me = q.shape[1], q.shape[2], cuda.threadIdx.x
    t, h = cuda.blockIdx.x // heads, cuda.blockIdx.x % heads
    # guard[numba-grouped-heads]: consecutive query heads share a KV head
    # mutant[numba-grouped-heads/tiled]:
    #   - g = h // (heads // k_cache.shape[1])
    #   + g = h % k_cache.shape[1]
    g = h // (heads // k_cache.shape[1])
    query = cuda.shared.array(DIMS_LIMIT, np.float32)
    scores = cuda.shared.array(BLOCK, np.float32)
    weights = cuda.shared.array(BLOCK, np.float32)
    part = cuda.shared.array(DIMS_LIMIT, np.float32)
    total = cuda.shared.array(DIMS_LIMIT, np.float32)
    for d in range(me, dims, BLOCK):
        query[d] = widen(q[t, h, d])
        total[d] = np.float32(0.0)
    cuda.syncthreads()

    r, pad, first, last = visible(cu_seqlens, row, end, lead_pad, window, t)
    m, l = np.float32(-np.inf), np.float32(0.0)  # noqa: E741
    # guard[numba-first-segment]: segments start at the row's first live position, not at column 0
    # mutant[numba-first-segment/skips-one]:
    #   - for segment in range(first // SEGMENT, last // SEGMENT + 1):
    #   + for segment in range(first // SEGMENT, last // SEGMENT):
    for segment in range(first // SEGMENT, last // SEGMENT + 1):
        part_m, part_l = fold_segment(
            query, k_cache, v_cache, r, g, pad, segment, first, last, scale, scores, weights, part
        )
        m, l, old, new = merge(m, l, part_m, part_l)  # noqa: E741
        for d in range(me, dims, BLOCK):
            total[d] = total[d] * old + part[d] * new
    for d in range(me, dims, BLOCK):
        # guard[numba-sees-nothing]: padding, and a query that sees nothing, give zeros and not 0 / 0
        # mutant[numba-sees-nothing/divides]:
        #   - out[t, h, d] = narrow(total[d] / l if last >= first else np.float32(0.0), out)
        #   + out[t, h, d] = narrow(total[d] / l, out)
        out[t, h, d] = narrow(total[d] / l if last >= first else np.float32(0.0), out)


def attention_prefill(
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
    out: Array = empty(q, q.shape)
    launch(attend, (q.shape[0] * q.shape[1], 1, 1), BLOCK, q, k_cache, v_cache, *geometry, float(scale), out)
    return out
