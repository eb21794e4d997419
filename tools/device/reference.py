"""The ops in float64 NumPy: what the device's results are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

F64 = np.ndarray[Any, np.dtype[np.float64]]


def wide(x: Any) -> F64:
    return np.asarray(x, np.float32).astype(np.float64)


def linear64(x: Any, w: Any, bias: Any = None, gate: Any = None, residual: Any = None) -> F64:
    y = wide(x) @ wide(w).T
    if bias is not None:
        y += wide(bias)
    if gate is not None:
        g = wide(gate)
        y *= g / (1 + np.exp(-g))
    return y if residual is None else y + wide(residual)


def norm64(x: Any, weight: Any, eps: float) -> F64:
    a = wide(x)
    normed: F64 = a / np.sqrt((a * a).mean(-1, keepdims=True) + eps) * wide(weight)
    return normed


def rotate64(x: Any, cos: Any, sin: Any) -> F64:
    a, b = np.split(wide(x), 2, axis=-1)
    c, s = wide(cos)[:, None], wide(sin)[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def attention64(q: Any, k: Any, v: Any, cu: Any, row: Any, end: Any, pad: Any, window: int | None, scale: float) -> F64:
    """Softmax over the visible columns of each query, row by row."""
    out = np.zeros(q.shape, np.float64)
    group = q.shape[1] // k.shape[1]
    for b in range(len(row)):
        first, stop = int(cu[b]), int(cu[b + 1])
        if row[b] < 0 or first == stop:
            continue
        oldest = max(int(pad[b]), 0)
        keys, values = (np.repeat(wide(c[row[b], :, oldest : end[b]]), group, axis=0) for c in (k, v))
        queries = wide(q[first:stop]).swapaxes(0, 1)
        scores = queries @ keys.swapaxes(1, 2) * scale
        column = np.arange(end[b] - (stop - first), end[b])[:, None]
        at = np.arange(oldest, end[b])[None]
        seen = (at <= column) & (at > column - (window or 1 << 30))
        scores = np.where(seen[None], scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        out[first:stop] = (p / p.sum(-1, keepdims=True) @ values).swapaxes(0, 1)
    return out
