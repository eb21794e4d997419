"""rope_and_append, told in Numba: one block per token; a thread turns whole pairs (d, d + D/2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuda_kernels.common.types import F32, Array, IntArray
from cuda_kernels.numba_tools.launch import launch, row_threads
from cuda_kernels.numba_tools.words import cuda, narrow, widen
from cuda_kernels.raw.arrays import integers, same


@cuda.jit(device=True)
def turn(low: Any, high: Any, cosine: Any, sine: Any) -> Any:
    """One pair, turned by its angle."""
    # guard[numba-turn]: the pair turns one way; the other way is the angle of minus the position
    # mutant[numba-turn/backwards]:
    #   - return low * cosine - high * sine, high * cosine + low * sine
    #   + return low * cosine + high * sine, high * cosine - low * sine
    return low * cosine - high * sine, high * cosine + low * sine


@cuda.jit
def rotate_and_store(
    q: Any, k: Any, v: Any, cos: Any, sin: Any, k_cache: Any, v_cache: Any, row: Any, column: Any
) -> None:
    """q [T, H, D] in place, k and v [T, G, D], cos and sin [T, D/2] -> caches [R, G, C, D]."""
    t, me, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    heads, groups, half = q.shape[1], k.shape[1], q.shape[2] // 2
    for i in range(me, heads * half, threads):
        h, d = i // half, i % half
        low, high = turn(widen(q[t, h, d]), widen(q[t, h, d + half]), cos[t, d], sin[t, d])
        q[t, h, d], q[t, h, d + half] = narrow(low, q), narrow(high, q)

    r, c = row[t], column[t]
    # guard[numba-padding-row]: row -1 is padding; what lies outside the cache belongs to somebody else
    # mutant[numba-padding-row/written]:
    #   - if not (0 <= r < k_cache.shape[0] and 0 <= c < k_cache.shape[2]):
    #   + if False:
    # mutant[numba-padding-row/column-unchecked]:
    #   - if not (0 <= r < k_cache.shape[0] and 0 <= c < k_cache.shape[2]):
    #   + if not 0 <= r < k_cache.shape[0]:
    if not (0 <= r < k_cache.shape[0] and 0 <= c < k_cache.shape[2]):
        return
    for i in range(me, groups * half, threads):
        g, d = i // half, i % half
        low, high = turn(widen(k[t, g, d]), widen(k[t, g, d + half]), cos[t, d], sin[t, d])
        k_cache[r, g, c, d], k_cache[r, g, c, d + half] = narrow(low, k_cache), narrow(high, k_cache)
        v_cache[r, g, c, d], v_cache[r, g, c, d + half] = v[t, g, d], v[t, g, d + half]


def rope_and_append(
    q: Array,
    k: Array,
    v: Array,
    cos: F32,
    sin: F32,
    k_cache: Array,
    v_cache: Array,
    row: IntArray,
    column: IntArray,
) -> None:
    """q rotated in place; rotated k and plain v go to (row, column). Outside the caches nothing is written.

    Shapes as in the spec. Source: Su et al. 2021, RoFormer, with dimensions i and i + D/2 as a pair.
    """
    tokens, heads, dim = q.shape
    rows, groups, columns, _ = k_cache.shape
    for name, array in (("k", k), ("v", v)):
        same(name, array, (tokens, groups, dim), q.dtype)
    for name, array in (("cos", cos), ("sin", sin)):
        same(name, array, (tokens, dim // 2), np.float32)
    for name, array in (("k_cache", k_cache), ("v_cache", v_cache)):
        same(name, array, (rows, groups, columns, dim), q.dtype)
    integers("row", row, tokens)
    integers("column", column, tokens)
    threads = row_threads((heads + groups) * dim // 2)
    launch(rotate_and_store, (tokens, 1, 1), threads, q, k, v, cos, sin, k_cache, v_cache, row, column)
