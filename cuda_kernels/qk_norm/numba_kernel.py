"""qk_norm, told in Numba: rms_norm of every head on its own, so each (token, head) is a row of numba_tools/norm.py."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.numba_tools.launch import absent, launch
from cuda_kernels.numba_tools.norm import normalise_rows, threads_for
from cuda_kernels.raw.arrays import empty, same


def qk_norm(x: Array, weight: Array, eps: float) -> Array:
    """x [T, H, D], weight [D] -> [T, H, D]."""
    tokens, heads, dim = x.shape
    same("weight", weight, (dim,))
    rows = x.reshape(tokens * heads, dim)
    out: Array = empty(x, (tokens * heads, dim))
    launch(normalise_rows, (tokens * heads, 1, 1), threads_for(dim), rows, weight, absent(None, 2, x), out, eps)
    return out.reshape(tokens, heads, dim)
