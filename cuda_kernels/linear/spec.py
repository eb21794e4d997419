"""linear: y = x @ w.T with the epilogues a decoder layer needs."""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import F32, Array


def linear(
    x: Array,
    w: Array,
    bias: Array | None = None,
    gate: Array | None = None,
    residual: Array | None = None,
) -> Array:
    """x [T, K], w [N, K], bias [N], gate [T, N], residual [T, N] -> [T, N], float32 inside, rounded once at the end.

    In this order: y = x @ w.T, y += bias, y = silu(gate) * y, y += residual.
    """
    y = np.asarray(x, np.float32) @ np.asarray(w, np.float32).T
    return epilogue(y, bias, gate, residual).astype(x.dtype, copy=False)


def epilogue(y: F32, bias: Array | None, gate: Array | None, residual: Array | None) -> F32:
    """What follows the product, in place on y [T, N]."""
    if bias is not None:
        y += bias
    if gate is not None:
        y *= silu(np.asarray(gate, np.float32))
    if residual is not None:
        y += residual
    return y


def silu(x: F32) -> F32:
    """x / (1 + exp(-x)), elementwise. Far below zero exp overflows to infinity, and the quotient is -0 as it should."""
    y = np.negative(x)
    with np.errstate(over="ignore"):
        np.exp(y, out=y)
    y += np.float32(1.0)
    return np.divide(x, y, out=y)
