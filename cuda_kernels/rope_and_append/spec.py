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
    # guard[same-angle]: the queries and keys of one step turn by the same position, each once
    # mutant[same-angle/queries-twice]:
    #   - q[...] = rotate(q, cos, sin)
    #   + q[...] = rotate(rotate(q, cos, sin), cos, sin)
    q[...] = rotate(q, cos, sin)
    k = rotate(k, cos, sin)
    # guard[padding-row]: -1 would wrap around to the last buffer row, which belongs to somebody
    # mutant[padding-row/written]:
    #   - if row.size and int(row.min()) < 0:
    #   + if False:
    if row.size and int(row.min()) < 0:
        live = row >= 0
        row, column, k, v = row[live], column[live], k[live], v[live]
    if row.size and (int(column.min()) < 0 or int(column.max()) >= k_cache.shape[2]):
        raise ValueError(f"rope_and_append: columns {column.tolist()} do not fit a cache of {k_cache.shape[2]}")
    k_cache[row, :, column] = k
    v_cache[row, :, column] = v


def rotate(x: Array, cos: F32, sin: F32) -> Array:
    """x [T, H, D] turned by the angles of cos, sin [T, D/2], in float32, rounded once to x's dtype."""
    half = x.shape[-1] // 2
    a, b = np.asarray(x[..., :half], np.float32), np.asarray(x[..., half:], np.float32)
    c, s = cos[:, None, :], sin[:, None, :]
    turned = np.empty(x.shape, np.float32)
    np.subtract(a * c, b * s, out=turned[..., :half])
    np.add(b * c, a * s, out=turned[..., half:])
    return turned.astype(x.dtype, copy=False)
