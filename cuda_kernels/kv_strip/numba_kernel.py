"""kv_strip, told in Numba: one thread per element of the copy."""

from __future__ import annotations

from typing import Any

from cuda_kernels.common.types import Array
from cuda_kernels.numba_tools.launch import ceil_div, launch
from cuda_kernels.numba_tools.words import cuda
from cuda_kernels.raw.arrays import empty

THREADS = 256


@cuda.jit
def copy_run(cache: Any, out: Any, row: Any, start: Any) -> None:
    """cache [R, G, C, D] -> out [G, n, D]: columns start .. start + n - 1 of one row."""
    columns, dims = out.shape[1], out.shape[2]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    # guard[numba-strip-tail]: the last block has more threads than elements
    # mutant[numba-strip-tail/removed]:
    #   - if i >= out.size:
    #   + if False:
    if i >= out.size:
        return
    g, column, d = i // (columns * dims), i // dims % columns, i % dims
    out[g, column, d] = cache[row, g, start + column, d]


def kv_strip(cache: Array, row: int, start: int, stop: int) -> Array:
    """cache [R, G, C, D] -> an owned [G, stop - start, D]. Raises ValueError if the run leaves the row."""
    rows, groups, columns, dim = cache.shape
    if not 0 <= row < rows or not 0 <= start <= stop <= columns:
        raise ValueError(f"kv_strip: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    out: Array = empty(cache, (groups, stop - start, dim))
    launch(copy_run, (ceil_div(out.size, THREADS), 1, 1), THREADS, cache, out, row, start)
    return out
