"""Launches rms_norm/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.shapes import padded, row_threads, vector


def rms_norm(x: Array, weight: Array, eps: float, residual: Array | None = None) -> Array:
    """x [T, K], weight [K], residual [T, K] or None -> [T, K]; with a residual x += residual first, in place."""
    count, width = x.shape
    same("weight", weight, (width,))
    if residual is not None:
        same("residual", residual, (count, width))
    out: Array = empty(x, (count, width))
    threads = row_threads(width)
    defines = {"TKV_DTYPE": dtype_code(x), "TKV_VEC": vector(width), "TKV_THREADS": threads}
    kernel = loader.kernel("rms_norm/raw_kernel.cu", "rms_norm", x, defines)
    shared = padded(threads // 32 * 4)
    kernel((count, 1, 1), (threads, 1, 1), (x, weight, residual, out, eps, width), shared=shared, early=True)
    return out
