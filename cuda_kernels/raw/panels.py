"""Panels: a matrix laid out for the tensor cores of sm_90 (common/panels.cuh), a copy or straight from its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuda_kernels.raw.arrays import dtype_code, empty
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.shapes import ceil_div
from cuda_kernels.raw.tiles import PANEL_K


@dataclass(frozen=True)
class Panels:
    """A matrix of `shape` (rows, K) in panels of `height` rows: array [panels, steps of 64 k, 64 * height]."""

    array: Any
    shape: tuple[int, int]
    height: int

    def __len__(self) -> int:
        return self.shape[0]


def empty_panels(like: Any, rows: int, width: int, height: int) -> Panels:
    """Room for the panels of a matrix [rows, width], beside `like`."""
    count, steps = ceil_div(rows, height), ceil_div(width, PANEL_K)
    return Panels(empty(like, (count, steps, PANEL_K * height)), (rows, width), height)


def panels(height: int, matrix: Any, other: Any = None) -> Panels:
    """[rows, K] -> its panels of `height` rows, with another matrix 8 rows of each in turn; panels as they are."""
    if isinstance(matrix, Panels):
        if matrix.height != height:
            raise ValueError(f"panels of {matrix.height} rows, the product takes {height}")
        return matrix
    rows, width = matrix.shape
    out = empty_panels(matrix, rows if other is None else 2 * rows, width, height)
    count, steps, _ = out.array.shape
    _launch(place_of(matrix), dtype_code(matrix), height, (count, steps), rows, width)(matrix, other, out.array)
    return out


@remembered
def _launch(place: Place, dtype: int, height: int, grid: tuple[int, int], rows: int, width: int) -> Launch:
    lay_out = kernel("fused/panels_kernel.cu", "panels", place, {"TKV_DTYPE": dtype, "TKV_ROWS": height})
    return lay_out.launch((*grid, 1), (2 * height, 1, 1), (rows, width), early=True)
