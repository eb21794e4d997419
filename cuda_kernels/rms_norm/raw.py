"""Launches rms_norm/raw_kernel.cu."""

from __future__ import annotations

from typing import Any

from cuda_kernels.common.types import Array
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.panels import empty_panels
from cuda_kernels.raw.shapes import padded, row_threads, vector


def _launch(x: Array, weight: Array, eps: float, residual: Array | None, out: Array, panel_rows: int) -> None:
    count, width = x.shape
    same("weight", weight, (width,))
    if residual is not None:
        same("residual", residual, (count, width))
    threads = row_threads(width)
    defines = {"TKV_DTYPE": dtype_code(x), "TKV_VEC": vector(width), "TKV_THREADS": threads, "TKV_ROWS": panel_rows}
    kernel = loader.kernel("rms_norm/raw_kernel.cu", "rms_norm", x, defines)
    shared = padded(threads // 32 * 4)
    kernel((count, 1, 1), (threads, 1, 1), (x, weight, residual, out, eps, width), shared=shared, early=True)


def rms_norm(x: Array, weight: Array, eps: float, residual: Array | None = None) -> Array:
    """x [T, K], weight [K], residual [T, K] or None -> [T, K]; with a residual x += residual first, in place."""
    out: Array = empty(x, x.shape)
    _launch(x, weight, eps, residual, out, 0)
    return out


def norm_in_panels(x: Array, weight: Array, eps: float, height: int) -> Any:
    """x [T, K], weight [K] -> the same as Panels of `height` rows. K must be a multiple of 64."""
    rows, width = x.shape
    out = empty_panels(x, rows, width, height)
    _launch(x, weight, eps, None, out.array, height)
    return out
