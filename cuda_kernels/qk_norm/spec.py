"""qk_norm: rms_norm of every head on its own (qwen3)."""

from __future__ import annotations

from cuda_kernels.common.norm import normalise
from cuda_kernels.common.types import Array


def qk_norm(x: Array, weight: Array, eps: float) -> Array:
    """x [T, H, D], weight [D] -> [T, H, D]. Applied to queries and keys before rotation."""
    return normalise(x, weight, eps)
