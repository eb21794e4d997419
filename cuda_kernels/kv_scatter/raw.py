"""Launches kv_scatter/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, same
from cuda_kernels.raw.shapes import ceil_div, check_head_dim, copy_elements

THREADS = 128


def kv_scatter(blocks: Array, cache: Array, row: int, start: int) -> None:
    """blocks [n, G, block_tokens, D] -> columns of one row of cache [R, G, C, D], in place. Raises ValueError."""
    count, groups, block_tokens, head_dim = blocks.shape
    rows, _, columns, _ = cache.shape
    check_head_dim(head_dim)
    same("cache", cache, (rows, groups, columns, head_dim), blocks.dtype)
    stop = start + count * block_tokens
    if not 0 <= row < rows or not 0 <= start <= stop <= columns:
        raise ValueError(f"kv_scatter: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    copy = copy_elements(cache, head_dim)
    defines = {"TKV_DTYPE": dtype_code(cache), "TKV_D": head_dim, "TKV_COPY": copy}
    kernel = loader.kernel("kv_scatter/raw_kernel.cu", "kv_scatter", loader.place_of(cache), defines)
    grid = (count * groups, min(64, ceil_div(block_tokens * head_dim, copy * THREADS)), 1)
    kernel(grid, (THREADS, 1, 1), (blocks, cache, row, start, block_tokens, groups, columns))
