"""embed: look up one table row per token."""

from __future__ import annotations

from cuda_kernels.common.types import Array, IntArray


def embed(tokens: IntArray, table: Array) -> Array:
    """tokens [T], table [V, K] -> [T, K].

    Raises ValueError if a token lies outside 0..V-1 (NumPy would wrap a negative one around).
    """
    if tokens.size and (int(tokens.min()) < 0 or int(tokens.max()) >= table.shape[0]):
        raise ValueError(f"embed: token ids {tokens.min()}..{tokens.max()} do not fit a table of {table.shape[0]} rows")
    return table.take(tokens, axis=0)
