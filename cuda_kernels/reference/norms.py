"""rms_norm over the threads: each row is normalised by the spec itself, some rows at a time."""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import Array
from cuda_kernels.reference.threads import by_rows
from cuda_kernels.rms_norm.spec import rms_norm as spec


def rms_norm(x: Array, weight: Array, eps: float, residual: Array | None = None) -> Array:
    """x [T, K], weight [K], residual [T, K] or None -> [T, K]; see rms_norm/spec.py."""
    out = np.empty_like(x)

    def some(start: int, stop: int) -> None:
        out[start:stop] = spec(x[start:stop], weight, eps, None if residual is None else residual[start:stop])

    by_rows(len(x), some)
    return out
