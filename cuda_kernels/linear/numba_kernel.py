"""linear, told in Numba: a tiled product with its epilogue; the kernel is in numba_tools/product.py."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.numba_tools.product import product


def linear(
    x: Array,
    w: Array,
    bias: Array | None = None,
    gate: Array | None = None,
    residual: Array | None = None,
) -> Array:
    """x [T, K], w [N, K] -> [T, N]: product, + bias, silu(gate) *, + residual; float32 inside, rounded once."""
    out: Array = product(x, w, bias, gate, residual, out_float32=False)
    return out
