"""Launches kv_strip/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty
from cuda_kernels.raw.shapes import ceil_div, check_head_dim, copy_elements

THREADS = 256


def kv_strip(cache: Array, row: int, start: int, stop: int) -> Array:
    """cache [R, G, C, D] -> an owned [G, stop - start, D]. Raises ValueError if the run leaves the row."""
    rows, groups, columns, head_dim = cache.shape
    check_head_dim(head_dim)
    if not 0 <= row < rows or not 0 <= start <= stop <= columns:
        raise ValueError(f"kv_strip: row {row}, columns {start}..{stop} leave a buffer of shape {cache.shape}")
    count, copy = stop - start, copy_elements(cache, head_dim)
    out: Array = empty(cache, (groups, count, head_dim))
    defines = {"TKV_DTYPE": dtype_code(cache), "TKV_D": head_dim, "TKV_COPY": copy}
    kernel = loader.kernel("kv_strip/raw_kernel.cu", "kv_strip", loader.place_of(cache), defines)
    grid = (min(64, ceil_div(count * head_dim, copy * THREADS)), groups, 1)
    kernel(grid, (THREADS, 1, 1), (cache, out, row, start, count, groups, columns))
    return out
