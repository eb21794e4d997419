"""Root mean square normalisation over the last axis, shared by rms_norm and qk_norm."""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import Array


def normalise(x: Array, weight: Array, eps: float) -> Array:
    """y = x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32, rounded once to x's dtype.

    The sum of squares is NumPy's pairwise sum along a contiguous row: its order depends on the row's length alone.
    Source: Zhang and Sennrich 2019, Root Mean Square Layer Normalization.
    """
    wide = np.asarray(x, np.float32)
    mean = np.add.reduce(np.square(wide), axis=-1, keepdims=True)
    mean *= np.float32(1.0 / x.shape[-1])
    mean += np.float32(eps)
    y = wide / np.sqrt(mean, out=mean)
    y *= weight
    return y.astype(x.dtype, copy=False)
