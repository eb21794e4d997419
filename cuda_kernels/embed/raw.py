"""Launches embed/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array, IntArray
from cuda_kernels.raw.arrays import dtype_code, empty, integers
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.shapes import row_threads, vector


def embed(tokens: IntArray, table: Array) -> Array:
    """tokens [T], table [V, K] -> [T, K]. A token outside the table gives a row of NaN: the device cannot raise."""
    integers("tokens", tokens, len(tokens))
    count, (vocabulary, width) = len(tokens), table.shape
    out: Array = empty(table, (count, width))
    _launch(place_of(table), dtype_code(table), count, vocabulary, width)(tokens, table, out)
    return out


@remembered
def _launch(place: Place, dtype: int, count: int, vocabulary: int, width: int) -> Launch:
    copy = kernel("embed/raw_kernel.cu", "embed", place, {"TKV_DTYPE": dtype, "TKV_VEC": vector(width)})
    return copy.launch((count, 1, 1), (min(256, row_threads(width)), 1, 1), (vocabulary, width))
