"""kv_gather: owned copies of whole blocks of a row, for the prefix cache."""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import Array


def kv_gather(cache: Array, row: int, start: int, blocks: int, block_tokens: int) -> Array:
    """cache [R, G, C, D] -> [blocks, G, block_tokens, D]: columns start .. start + blocks * block_tokens of one row.

    Raises ValueError if the run does not lie inside the row.
    """
    groups, columns, dim = cache.shape[1:]
    stop = start + blocks * block_tokens
    if not 0 <= row < cache.shape[0] or not 0 <= start <= stop <= columns:
        raise ValueError(f"kv_gather: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    run = cache[row, :, start:stop].reshape(groups, blocks, block_tokens, dim)
    return np.array(run.swapaxes(0, 1), order="C", copy=True)
