"""Launches kv_align/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array, IntArray
from cuda_kernels.raw.arrays import dtype_code, integers, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.shapes import check_head_dim, copy_elements

THREADS = 256


def kv_align(
    src: Array,
    src_row: IntArray,
    src_col: IntArray,
    dst: Array,
    dst_row: IntArray,
    dst_col: IntArray,
    length: IntArray,
) -> None:
    """src [Rs, G, Cs, D] -> dst [Rd, G, Cd, D]: M runs of `length` columns; only a run and itself may overlap."""
    _, groups, from_columns, head_dim = src.shape
    check_head_dim(head_dim)
    same("dst", dst, (dst.shape[0], groups, dst.shape[2], head_dim), src.dtype)
    for name, array in (
        ("src_row", src_row), ("src_col", src_col), ("dst_row", dst_row), ("dst_col", dst_col), ("length", length)
    ):  # fmt: skip
        integers(name, array, len(length))
    sizes, copy = (groups, from_columns, dst.shape[2]), copy_elements(src, head_dim)
    launch = _launch(place_of(src), dtype_code(src), head_dim, copy, len(length), sizes)
    launch(src, src_row, src_col, dst, dst_row, dst_col, length)


@remembered
def _launch(place: Place, dtype: int, head_dim: int, copy: int, runs: int, sizes: tuple[int, int, int]) -> Launch:
    """sizes: (G, Cs, Cd)."""
    defines = {"TKV_DTYPE": dtype, "TKV_D": head_dim, "TKV_COPY": copy, "TKV_THREADS": THREADS}
    move = kernel("kv_align/raw_kernel.cu", "kv_align", place, defines)
    return move.launch((runs * sizes[0], 1, 1), (THREADS, 1, 1), sizes)
