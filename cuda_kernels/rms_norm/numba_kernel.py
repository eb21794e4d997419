"""rms_norm, told in Numba: one block per token; the kernel is in numba_tools/norm.py."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.numba_tools.launch import absent, launch
from cuda_kernels.numba_tools.norm import normalise_rows, threads_for
from cuda_kernels.raw.arrays import empty, same


def rms_norm(x: Array, weight: Array, eps: float, residual: Array | None = None) -> Array:
    """x [T, K], weight [K], residual [T, K] or None -> [T, K]; with a residual x += residual first, in place."""
    tokens, width = x.shape
    same("weight", weight, (width,))
    if residual is not None:
        same("residual", residual, (tokens, width))
    out: Array = empty(x, (tokens, width))
    launch(normalise_rows, (tokens, 1, 1), threads_for(width), x, weight, absent(residual, 2, x), out, eps)
    return out
