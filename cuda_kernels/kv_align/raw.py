"""Launches kv_align/raw_kernel.cu."""

from __future__ import annotations

from cuda_kernels.common.types import Array, IntArray
from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, integers, same
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
    copy = copy_elements(src, head_dim)
    defines = {"TKV_DTYPE": dtype_code(src), "TKV_D": head_dim, "TKV_COPY": copy, "TKV_THREADS": THREADS}
    kernel = loader.kernel("kv_align/raw_kernel.cu", "kv_align", loader.place_of(src), defines)
    arguments = (src, src_row, src_col, dst, dst_row, dst_col, length, groups, from_columns, dst.shape[2])
    kernel((len(length) * groups, 1, 1), (THREADS, 1, 1), arguments)
