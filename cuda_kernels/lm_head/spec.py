"""lm_head: the last product, from hidden state to logits."""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import F32, Array


def lm_head(x: Array, w: Array) -> F32:
    """x [T, K], w [V, K] -> logits [T, V], always float32 and never rounded below it."""
    return np.asarray(x, np.float32) @ np.asarray(w, np.float32).T
