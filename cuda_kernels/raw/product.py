"""Launches of linear and lm_head: which kernel runs, and the K-chunks that make every choice give the same bits."""

from __future__ import annotations

from typing import Any, NamedTuple

from cuda_kernels.raw.arrays import FLOAT32, dtype_code, empty, same
from cuda_kernels.raw.loader import Launch, Place, kernel, place_of, remembered
from cuda_kernels.raw.panels import Panels, panels
from cuda_kernels.raw.shapes import ceil_div, padded
from cuda_kernels.raw.tiles import Tile, tile_for, warpgroup_tile

WARPS_WANTED = 2112  # 16 for each of 132 multiprocessors: enough loads in flight to fill the memory bus
CHUNKS_LIMIT = 16
CHUNK_STEP = 128
BLOCK_WARPS = 16
ROWS_LIMIT = 16  # tokens up to which the weights stream past shared memory
MMA_ARCH = 80


class Product(NamedTuple):
    """[rows, width] x [outputs, width] by the kernels of the file `path`; dtype: a TKV_DTYPE."""

    path: str
    dtype: int
    out_float32: bool
    rows: int
    outputs: int
    width: int

    @property
    def defines(self) -> dict[str, int]:
        """What every kernel of the file is compiled with."""
        return {"TKV_DTYPE": self.dtype, "TKV_OUT_F32": int(self.out_float32)}


def chunk_of(n: int, k: int) -> int:
    """Length of the K-chunks of a layer [N, K]; by its shape alone, or a row's bits would depend on its mates."""
    chunks = min(CHUNKS_LIMIT, max(1, ceil_div(8 * WARPS_WANTED, n)))
    return ceil_div(ceil_div(k, chunks), CHUNK_STEP) * CHUNK_STEP


def tiled(dtype: int, width: int, arch: int) -> bool:
    """Do products of x [T, K = width] run on the tensor cores?"""
    return dtype != 0 and width % 8 == 0 and arch >= MMA_ARCH


def product(path: str, x: Any, w: Any, bias: Any, gate: Any, residual: Any, *, out_float32: bool) -> Any:
    """x [T, K] or its panels, w [N, K] -> [T, N] by the kernels of the file `path`."""
    (rows, width), outputs, panelled = x.shape, w.shape[0], isinstance(x, Panels)
    beside = x.array if panelled else x
    same("w", w, (outputs, width), beside.dtype)
    whole = (rows, outputs)
    for name, array, shape in (("bias", bias, (outputs,)), ("gate", gate, whole), ("residual", residual, whole)):
        if array is not None:
            same(name, array, shape, beside.dtype)
    out = empty(beside, whole, FLOAT32 if out_float32 else None)
    task, place = Product(path, dtype_code(beside), out_float32, rows, outputs, width), place_of(beside)
    # The choice of arithmetic is the layer's; only between rows and tiles does T decide.
    if panelled:
        _tiles(place, task, x, w, (bias, gate, residual), out, warpgroup_tile(rows, outputs), 1)
    elif not tiled(task.dtype, width, place.arch):
        _simple(place, task)(x, w, bias, gate, residual, out)
    elif rows <= ROWS_LIMIT:
        _rows(place, task)(x, w, bias, gate, residual, out)
    else:
        _tiles(place, task, x, w, (bias, gate, residual), out, *tile_for(rows, outputs, width, place.arch))
    return out


@remembered
def _simple(place: Place, task: Product) -> Launch:
    path, _, _, rows, outputs, width = task
    grid = (ceil_div(outputs, 32), ceil_div(rows, 32), 1)
    simple = kernel(path, "linear_simple", place, task.defines | {"TKV_PATH": 0})
    scalars = (rows, outputs, width, chunk_of(outputs, width))
    return simple.launch(grid, (256, 1, 1), scalars, shared=2 * padded(32 * 33 * 4))


@remembered
def _rows(place: Place, task: Product) -> Launch:
    path, _, _, rows, outputs, width = task
    chunk = chunk_of(outputs, width)
    chunks = ceil_div(width, chunk)
    groups = max(1, min(BLOCK_WARPS // chunks, 8))
    grid, warps = (ceil_div(outputs, 8 * groups), ceil_div(rows, 16), 1), chunks * groups
    streamed = kernel(path, "linear_rows", place, task.defines | {"TKV_PATH": 1})
    return streamed.launch(grid, (32 * warps, 1, 1), (rows, outputs, width, chunk, chunks), shared=warps * 16 * 8 * 4)


def _tiles(
    place: Place, task: Product, x: Any, w: Any, terms: tuple[Any, ...], out: Any, tile: Tile, parts: int
) -> None:
    multiply, reduce, chunks = _tile_launches(place, task, tile, parts)
    partial = None if reduce is None else empty(out, (chunks, task.rows, task.outputs), FLOAT32)
    if tile.warpgroups:
        x, w = panels(tile.bm, x).array, panels(tile.bn, w).array
    multiply(x, w, *terms, out, partial)
    if reduce is not None:
        reduce(partial, *terms, out)


@remembered
def _tile_launches(place: Place, task: Product, tile: Tile, parts: int) -> tuple[Launch, Launch | None, int]:
    """The product, what adds up its parts where there are several, and the number of chunks."""
    path, _, _, rows, outputs, width = task
    chunk = chunk_of(outputs, width)
    chunks = ceil_div(width, chunk)
    parts = ceil_div(chunks, ceil_div(chunks, min(parts, chunks)))  # no part without a chunk
    choices = {"TKV_PATH": 2, "TKV_SPLIT": int(parts > 1), "TKV_PAIRS": int(outputs % 2 == 0)}
    built = task.defines | choices | tile.defines
    grid = (ceil_div(rows, tile.bm), ceil_div(outputs, tile.bn), parts)
    multiply = kernel(path, "linear_tiles", place, built).launch(
        grid, (tile.threads, 1, 1), (rows, outputs, width, chunk, chunks), shared=tile.shared, early=True
    )
    if parts == 1:
        return multiply, None, chunks
    reduce = kernel(path, "linear_reduce", place, built)
    over = (ceil_div(rows * outputs, 256), 1, 1)
    return multiply, reduce.launch(over, (256, 1, 1), (rows, outputs, chunks), early=True), chunks
