"""kv_strip: an owned copy of a row's live run."""

from __future__ import annotations

from cuda_kernels.common.types import Array


def kv_strip(cache: Array, row: int, start: int, stop: int) -> Array:
    """cache [R, G, C, D] -> [G, stop - start, D], a copy that no later step can change.

    Raises ValueError if the run does not lie inside the row.
    """
    if not 0 <= row < cache.shape[0] or not 0 <= start <= stop <= cache.shape[2]:
        raise ValueError(f"kv_strip: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    return cache[row, :, start:stop].copy()
