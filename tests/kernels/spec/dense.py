"""Attention in float64 as one dense matrix: the oracle of the specs. Shares no code with them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


def attention(
    q: F32,
    k: F32,
    v: F32,
    counts: Sequence[int],
    rows: Sequence[int],
    ends: Sequence[int],
    pads: Sequence[int] | None = None,
    window: int | None = None,
    scale: float = 1.0,
) -> NDArray[np.float64]:
    """q [T, H, D], k and v [R, G, C, D]: the rows' queries one after another -> [T, H, D]."""
    out = np.zeros(q.shape)
    at = 0
    for b, (n, row, end) in enumerate(zip(counts, rows, ends, strict=True)):
        pad = pads[b] if pads is not None else 0
        for i in range(n):
            column = end - n + i
            seen = [
                j
                for j in range(k.shape[2])
                if j <= column and j >= pad and (window is None or j > column - window) and row >= 0
            ]
            for h in range(q.shape[1]) if seen else ():
                g = h // (q.shape[1] // k.shape[1])
                s = k[row, g, seen].astype(np.float64) @ q[at + i, h].astype(np.float64) * scale
                p = np.exp(s - s.max())
                out[at + i, h] = p / p.sum() @ v[row, g, seen].astype(np.float64)
        at += n
    return out


def cu(counts: Sequence[int]) -> NDArray[np.int32]:
    return np.cumsum([0, *counts]).astype(np.int32)


def ints(values: Sequence[int]) -> NDArray[np.int32]:
    return np.asarray(values, np.int32)
