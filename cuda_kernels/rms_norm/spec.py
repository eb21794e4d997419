"""rms_norm: scale each token's vector to unit root mean square, optionally after adding a residual."""

from __future__ import annotations

from cuda_kernels.common.norm import normalise
from cuda_kernels.common.types import Array


def rms_norm(x: Array, weight: Array, eps: float, residual: Array | None = None) -> Array:
    """x [T, K], weight [K], residual [T, K] or None -> [T, K].

    With a residual, x += residual happens first and IN PLACE: x is the stream that the next layer adds to.
    """
    if residual is not None:
        x += residual
    return normalise(x, weight, eps)
