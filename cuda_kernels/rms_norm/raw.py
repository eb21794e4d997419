"""Launches rms_norm/raw_kernel.cu."""

from __future__ import annotations

from typing import Any

from cuda_kernels.common.types import Array
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.panels import empty_panels
from cuda_kernels.raw.shapes import padded, row_threads, vector


def _run(x: Array, weight: Array, eps: float, residual: Array | None, out: Array, panel_rows: int) -> None:
    count, width = x.shape
    same("weight", weight, (width,))
    if residual is not None:
        same("residual", residual, (count, width))
    _launch(place_of(x), dtype_code(x), panel_rows, count, width, eps)(x, weight, residual, out)


@remembered
def _launch(place: Place, dtype: int, panel_rows: int, count: int, width: int, eps: float) -> Launch:
    threads = row_threads(width)
    defines = {"TKV_DTYPE": dtype, "TKV_VEC": vector(width), "TKV_THREADS": threads, "TKV_ROWS": panel_rows}
    norm = kernel("rms_norm/raw_kernel.cu", "rms_norm", place, defines)
    shared = padded(threads // 32 * 4)
    return norm.launch((count, 1, 1), (threads, 1, 1), (eps, width), shared=shared, early=True)


def rms_norm(x: Array, weight: Array, eps: float, residual: Array | None = None) -> Array:
    """x [T, K], weight [K], residual [T, K] or None -> [T, K]; with a residual x += residual first, in place."""
    out: Array = empty(x, x.shape)
    _run(x, weight, eps, residual, out, 0)
    return out


def norm_in_panels(x: Array, weight: Array, eps: float, height: int) -> Any:
    """x [T, K], weight [K] -> the same as Panels of `height` rows. K must be a multiple of 64."""
    rows, width = x.shape
    out = empty_panels(x, rows, width, height)
    _run(x, weight, eps, None, out.array, height)
    return out
