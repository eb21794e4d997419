"""Launches qk_norm/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.shapes import ceil_div, check_head_dim

WARPS = 4


def qk_norm(x: Array, weight: Array, eps: float) -> Array:
    """x [T, H, D], weight [D] -> [T, H, D]: every head on its own."""
    count, heads, head_dim = x.shape
    check_head_dim(head_dim)
    same("weight", weight, (head_dim,))
    out: Array = empty(x, (count, heads, head_dim))
    _launch(place_of(x), dtype_code(x), count * heads, head_dim, eps)(x, weight, out)
    return out


@remembered
def _launch(place: Place, dtype: int, count: int, head_dim: int, eps: float) -> Launch:
    norm = kernel("qk_norm/raw_kernel.cu", "qk_norm", place, {"TKV_DTYPE": dtype, "TKV_D": head_dim})
    return norm.launch((ceil_div(count, WARPS), 1, 1), (32 * WARPS, 1, 1), (eps, count))
