"""Launches of linear and lm_head: which kernel runs, and the K-chunks that make every choice give the same bits."""

from __future__ import annotations

from typing import Any

from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.panels import Panels, panels
from cuda_kernels.raw.shapes import ceil_div, padded
from cuda_kernels.raw.tiles import Tile, tile_for, warpgroup_tile

WARPS_WANTED = 2112  # 16 for each of 132 multiprocessors: enough loads in flight to fill the memory bus
CHUNKS_LIMIT = 16
CHUNK_STEP = 128
BLOCK_WARPS = 16
ROWS_LIMIT = 16  # tokens up to which the weights stream past shared memory
MMA_ARCH = 80


def chunk_of(n: int, k: int) -> int:
    """Length of the K-chunks of a layer [N, K]; by its shape alone, or a row's bits would depend on its mates."""
    chunks = min(CHUNKS_LIMIT, max(1, ceil_div(8 * WARPS_WANTED, n)))
    return ceil_div(ceil_div(k, chunks), CHUNK_STEP) * CHUNK_STEP


def tiled(x: Any, arch: int) -> bool:
    """Do products of this x [T, K] run on the tensor cores?"""
    return dtype_code(x) != 0 and x.shape[1] % 8 == 0 and arch >= MMA_ARCH


def product(path: str, x: Any, w: Any, bias: Any, gate: Any, residual: Any, *, out_float32: bool) -> Any:
    """x [T, K] or its panels, w [N, K] -> [T, N] by the kernels of the file `path`."""
    (rows, width), outputs = x.shape, w.shape[0]
    beside = x.array if isinstance(x, Panels) else x
    same("w", w, (outputs, width), beside.dtype)
    whole = (rows, outputs)
    for name, array, shape in (("bias", bias, (outputs,)), ("gate", gate, whole), ("residual", residual, whole)):
        if array is not None:
            same(name, array, shape, beside.dtype)
    out = empty(beside, (rows, outputs), "float32" if out_float32 else None)
    defines = {"TKV_DTYPE": dtype_code(beside), "TKV_OUT_F32": int(out_float32)}
    terms, arch = (bias, gate, residual), loader.arch_of(beside)
    # The choice of arithmetic is the layer's; only between rows and tiles does T decide.
    if isinstance(x, Panels):
        _tiles(path, x, w, terms, out, defines, warpgroup_tile(rows, outputs), 1)
    elif not tiled(x, arch):
        _simple(path, x, w, terms, out, defines)
    elif rows <= ROWS_LIMIT:
        _rows(path, x, w, terms, out, defines)
    else:
        _tiles(path, x, w, terms, out, defines, *tile_for(rows, outputs, width, arch))
    return out


def _simple(path: str, x: Any, w: Any, terms: tuple[Any, ...], out: Any, defines: dict[str, int]) -> None:
    (rows, width), outputs = x.shape, w.shape[0]
    kernel = loader.kernel(path, "linear_simple", x, defines | {"TKV_PATH": 0})
    arguments = (x, w, *terms, out, rows, outputs, width, chunk_of(outputs, width))
    kernel((ceil_div(outputs, 32), ceil_div(rows, 32), 1), (256, 1, 1), arguments, shared=2 * padded(32 * 33 * 4))


def _rows(path: str, x: Any, w: Any, terms: tuple[Any, ...], out: Any, defines: dict[str, int]) -> None:
    (rows, width), outputs = x.shape, w.shape[0]
    chunk = chunk_of(outputs, width)
    chunks = ceil_div(width, chunk)
    groups = max(1, min(BLOCK_WARPS // chunks, 8))
    kernel = loader.kernel(path, "linear_rows", x, defines | {"TKV_PATH": 1})
    grid = (ceil_div(outputs, 8 * groups), ceil_div(rows, 16), 1)
    arguments = (x, w, *terms, out, rows, outputs, width, chunk, chunks)
    warps = chunks * groups
    kernel(grid, (32 * warps, 1, 1), arguments, shared=warps * 16 * 8 * 4)


def _tiles(
    path: str, x: Any, w: Any, terms: tuple[Any, ...], out: Any, defines: dict[str, int], tile: Tile, parts: int
) -> None:
    (rows, width), outputs = x.shape, w.shape[0]
    chunk = chunk_of(outputs, width)
    chunks = ceil_div(width, chunk)
    parts = ceil_div(chunks, ceil_div(chunks, min(parts, chunks)))  # no part without a chunk
    partial = empty(out, (chunks, rows, outputs), "float32") if parts > 1 else None
    built = defines | {"TKV_PATH": 2, "TKV_SPLIT": int(parts > 1), "TKV_PAIRS": int(outputs % 2 == 0)} | tile.defines
    if tile.warpgroups:
        x, w = panels(tile.bm, x).array, panels(tile.bn, w).array
    kernel = loader.kernel(path, "linear_tiles", out, built)
    grid = (ceil_div(rows, tile.bm), ceil_div(outputs, tile.bn), parts)
    arguments = (x, w, *terms, out, partial, rows, outputs, width, chunk, chunks)
    kernel(grid, (tile.threads, 1, 1), arguments, shared=tile.shared, early=True)
    if parts > 1:
        reduce = loader.kernel(path, "linear_reduce", out, built)
        terms_and_sizes = (partial, *terms, out, rows, outputs, chunks)
        reduce((ceil_div(rows * outputs, 256), 1, 1), (256, 1, 1), terms_and_sizes, early=True)
