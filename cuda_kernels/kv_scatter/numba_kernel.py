"""kv_scatter, told in Numba: one thread per element, the inverse of kv_gather."""

from __future__ import annotations

from typing import Any

from cuda_kernels.common.types import Array
from cuda_kernels.numba_tools.launch import ceil_div, launch
from cuda_kernels.numba_tools.words import cuda
from cuda_kernels.raw.arrays import same

THREADS = 256


@cuda.jit
def write_blocks(blocks: Any, cache: Any, row: Any, start: Any) -> None:
    """blocks [B, G, n, D] -> columns start .. start + B * n - 1 of one row of cache [R, G, C, D]."""
    groups, tokens, dims = blocks.shape[1], blocks.shape[2], blocks.shape[3]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= blocks.size:
        return
    d, token, g, block = i % dims, i // dims % tokens, i // (dims * tokens) % groups, i // (dims * tokens * groups)
    # guard[numba-scatter-place]: a block goes where it was taken from
    # mutant[numba-scatter-place/row-zero]:
    #   - cache[row, g, start + block * tokens + token, d] = blocks[block, g, token, d]
    #   + cache[row, g, block * tokens + token, d] = blocks[block, g, token, d]
    cache[row, g, start + block * tokens + token, d] = blocks[block, g, token, d]


def kv_scatter(blocks: Array, cache: Array, row: int, start: int) -> None:
    """blocks [B, G, n, D] -> columns of one row of cache [R, G, C, D], in place. Raises ValueError outside."""
    count, groups, block_tokens, dim = blocks.shape
    rows, _, columns, _ = cache.shape
    same("cache", cache, (rows, groups, columns, dim), blocks.dtype)
    stop = start + count * block_tokens
    if not 0 <= row < rows or not 0 <= start <= stop <= columns:
        raise ValueError(f"kv_scatter: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    launch(write_blocks, (ceil_div(blocks.size, THREADS), 1, 1), THREADS, blocks, cache, row, start)
