"""Numbers a launch needs. They depend on the model's shape, never on how many rows run together."""

from __future__ import annotations

from typing import Any

from cuda_kernels.raw.arrays import dtype_code

GROUP_LIMIT = 8
HEAD_DIM_LIMIT = 256


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def padded(size: int) -> int:
    """Shared memory pieces start on 16 bytes."""
    return ceil_div(size, 16) * 16


def vector(length: int) -> int:
    """Elements per access for rows of `length`: 4 where rows stay aligned, else 1."""
    return 4 if length % 4 == 0 else 1


def row_threads(length: int) -> int:
    """Block size for a reduction over `length`: chosen by the length alone, so its tree is fixed."""
    return min(1024, max(32, ceil_div(ceil_div(length, 4), 32) * 32)) if length <= 4096 else 1024


def copy_elements(array: Any, head_dim: int) -> int:
    """Elements per access of a copy: 16 bytes where rows allow it, else 8."""
    return 8 if dtype_code(array) != 0 and head_dim % 8 == 0 else 4


def check_head_dim(head_dim: int) -> None:
    """Raises ValueError for a head dim no raw kernel is made for."""
    if head_dim % 4 != 0 or not 0 < head_dim <= HEAD_DIM_LIMIT:
        raise ValueError(f"head dim {head_dim}: raw kernels take multiples of 4 up to {HEAD_DIM_LIMIT}")
