"""Launches embed/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array, IntArray
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, integers
from cuda_kernels.raw.shapes import row_threads, vector


def embed(tokens: IntArray, table: Array) -> Array:
    """tokens [T], table [V, K] -> [T, K]. A token outside the table gives a row of NaN: the device cannot raise."""
    integers("tokens", tokens, len(tokens))
    count, (vocabulary, width) = len(tokens), table.shape
    out: Array = empty(table, (count, width))
    kernel = loader.kernel(
        "embed/raw_kernel.cu",
        "embed",
        loader.place_of(table),
        {"TKV_DTYPE": dtype_code(table), "TKV_VEC": vector(width)},
    )
    kernel((count, 1, 1), (min(256, row_threads(width)), 1, 1), (tokens, table, out, vocabulary, width))
    return out
