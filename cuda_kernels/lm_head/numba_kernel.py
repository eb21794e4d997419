"""lm_head, told in Numba: the tiled product of numba_tools/product.py, with float32 outputs."""

from __future__ import annotations

from cuda_kernels.common.types import F32, Array
from cuda_kernels.numba_tools.product import product


def lm_head(x: Array, w: Array) -> F32:
    """x [T, K], w [V, K] -> logits [T, V] in float32, never rounded below it."""
    out: F32 = product(x, w, None, None, None, out_float32=True)
    return out
