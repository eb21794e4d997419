"""Launches qk_norm/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.shapes import ceil_div, check_head_dim

WARPS = 4


def qk_norm(x: Array, weight: Array, eps: float) -> Array:
    """x [T, H, D], weight [D] -> [T, H, D]: every head on its own."""
    count, heads, head_dim = x.shape
    check_head_dim(head_dim)
    same("weight", weight, (head_dim,))
    out: Array = empty(x, (count, heads, head_dim))
    kernel = loader.kernel(
        "qk_norm/raw_kernel.cu", "qk_norm", loader.place_of(x), {"TKV_DTYPE": dtype_code(x), "TKV_D": head_dim}
    )
    kernel((ceil_div(count * heads, WARPS), 1, 1), (32 * WARPS, 1, 1), (x, weight, out, eps, count * heads))
    return out
