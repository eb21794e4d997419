"""rope_and_append: rotate queries and keys by position, then write K and V into the cache."""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import F32, Array, IntArray


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
    """q [T, H, D], k and v [T, G, D], cos and sin [T, D/2], caches [R, G, C, D], row and column [T] -> None.

    q is rotated IN PLACE; rotated k and plain v are written to (row, column). Row -1 is padding: nothing is written
    for it. Keys are rotated once, here: moving columns later never rotates. Raises ValueError for a column outside
    the cache.
    Source: Su et al. 2021, RoFormer, with dimensions i and i + D/2 as a pair ("rotate_half").
    """
    live = row >= 0
    if column[live].size and (int(column[live].min()) < 0 or int(column[live].max()) >= k_cache.shape[2]):
        raise ValueError(f"rope_and_append: columns {column[live]} do not fit a cache of {k_cache.shape[2]}")
    q[...] = rotate(q, cos, sin)
    k_cache[row[live], :, column[live]] = rotate(k, cos, sin)[live]
    v_cache[row[live], :, column[live]] = v[live]


def rotate(x: Array, cos: F32, sin: F32) -> Array:
    """x [T, H, D] turned by the angles of cos, sin [T, D/2], in float32, rounded once to x's dtype."""
    half = x.shape[-1] // 2
    a, b = np.asarray(x[..., :half], np.float32), np.asarray(x[..., half:], np.float32)
    c, s = cos[:, None, :], sin[:, None, :]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype, copy=False)
