"""kv_scatter: write stored blocks back into a row, the inverse of kv_gather."""

from __future__ import annotations

from cuda_kernels.common.types import Array


def kv_scatter(blocks: Array, cache: Array, row: int, start: int) -> None:
    """blocks [n, G, block_tokens, D] -> columns start .. start + n * block_tokens of cache [R, G, C, D], IN PLACE.

    Raises ValueError if the run does not lie inside the row.
    """
    count, groups, block_tokens, dim = blocks.shape
    stop = start + count * block_tokens
    if not 0 <= row < cache.shape[0] or not 0 <= start <= stop <= cache.shape[2]:
        raise ValueError(f"kv_scatter: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    cache[row, :, start:stop] = blocks.swapaxes(0, 1).reshape(groups, count * block_tokens, dim)
