"""kv_gather, told in Numba: one thread per element; block b holds columns start + b * n .. start + (b + 1) * n - 1."""

from __future__ import annotations

from typing import Any

from cuda_kernels.common.types import Array
from cuda_kernels.numba_tools.launch import ceil_div, launch
from cuda_kernels.numba_tools.words import cuda
from cuda_kernels.raw.arrays import empty

THREADS = 256


@cuda.jit
def copy_blocks(cache: Any, out: Any, row: Any, start: Any) -> None:
    """cache [R, G, C, D] -> out [blocks, G, n, D]."""
    groups, tokens, dims = out.shape[1], out.shape[2], out.shape[3]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= out.size:
        return
    d, token, g, block = i % dims, i // dims % tokens, i // (dims * tokens) % groups, i // (dims * tokens * groups)
    # guard[numba-gather-blocks]: blocks follow one another; every block starts where the one before ends
    # mutant[numba-gather-blocks/first-again]:
    #   - column = start + block * tokens + token
    #   + column = start + token
    column = start + block * tokens + token
    out[block, g, token, d] = cache[row, g, column, d]


def kv_gather(cache: Array, row: int, start: int, blocks: int, block_tokens: int) -> Array:
    """cache [R, G, C, D] -> owned [blocks, G, block_tokens, D]. Raises ValueError if the run leaves the row."""
    rows, groups, columns, dim = cache.shape
    stop = start + blocks * block_tokens
    if not 0 <= row < rows or not 0 <= start <= stop <= columns:
        raise ValueError(f"kv_gather: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    out: Array = empty(cache, (blocks, groups, block_tokens, dim))
    launch(copy_blocks, (ceil_div(out.size, THREADS), 1, 1), THREADS, cache, out, row, start)
    return out
