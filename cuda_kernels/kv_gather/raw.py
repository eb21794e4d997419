"""Launches kv_gather/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty
from cuda_kernels.raw.shapes import ceil_div, check_head_dim, copy_elements

THREADS = 128


def kv_gather(cache: Array, row: int, start: int, blocks: int, block_tokens: int) -> Array:
    """cache [R, G, C, D] -> owned [blocks, G, block_tokens, D]. Raises ValueError if the run leaves the row."""
    rows, groups, columns, head_dim = cache.shape
    check_head_dim(head_dim)
    stop = start + blocks * block_tokens
    if not 0 <= row < rows or not 0 <= start <= stop <= columns:
        raise ValueError(f"kv_gather: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    copy = copy_elements(cache, head_dim)
    out: Array = empty(cache, (blocks, groups, block_tokens, head_dim))
    defines = {"TKV_DTYPE": dtype_code(cache), "TKV_D": head_dim, "TKV_COPY": copy}
    kernel = loader.kernel("kv_gather/raw_kernel.cu", "kv_gather", loader.place_of(cache), defines)
    grid = (blocks * groups, min(64, ceil_div(block_tokens * head_dim, copy * THREADS)), 1)
    kernel(grid, (THREADS, 1, 1), (cache, out, row, start, block_tokens, groups, columns))
    return out
