"""Launches rope_and_append/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import F32, Array, IntArray
from cuda_kernels.raw.arrays import dtype_code, integers, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.shapes import check_head_dim


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
    """q [T, H, D] rotated in place; k, v [T, G, D] to caches [R, G, C, D] at (row, column); row -1 writes nothing."""
    count, heads, head_dim = q.shape
    rows, groups, columns, _ = k_cache.shape
    check_head_dim(head_dim)
    for name, array in (("k", k), ("v", v)):
        same(name, array, (count, groups, head_dim))
    for name, array in (("cos", cos), ("sin", sin)):
        same(name, array, (count, head_dim // 2))
    same("k_cache", k_cache, (rows, groups, columns, head_dim))
    same("v_cache", v_cache, (rows, groups, columns, head_dim))
    integers("row", row, count)
    integers("column", column, count)
    launch = _launch(place_of(q), dtype_code(q), head_dim, count, (heads, groups, columns, rows))
    launch(q, k, v, cos, sin, k_cache, v_cache, row, column)


@remembered
def _launch(place: Place, dtype: int, head_dim: int, count: int, sizes: tuple[int, int, int, int]) -> Launch:
    """sizes: (H, G, C, R)."""
    defines = {"TKV_DTYPE": dtype, "TKV_D": head_dim}
    rope = kernel("rope_and_append/raw_kernel.cu", "rope_and_append", place, defines)
    threads = 256 if (sizes[0] + sizes[1]) * head_dim >= 512 else 64
    return rope.launch((count, 1, 1), (threads, 1, 1), sizes)
