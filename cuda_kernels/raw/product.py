"""Launches of linear and lm_head: which kernel runs, and the K-chunks that make every choice give the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuda_kernels.raw import loader
from cuda_kernels.raw.arrays import dtype_code, empty, same
from cuda_kernels.raw.limits import SHARED_LIMIT
from cuda_kernels.raw.shapes import ceil_div, padded

WARPS_WANTED = 2112  # 16 for each of 132 multiprocessors: enough loads in flight to fill the memory bus
CHUNKS_LIMIT = 16
CHUNK_STEP = 128
BLOCK_WARPS = 16
ROWS_LIMIT = 16  # tokens up to which the weights stream past shared memory
MMA_ARCH = 80


@dataclass(frozen=True)
class Tile:
    """One build of linear_tiles: block of bm tokens x bn outputs by wm x wn warps, `stages` steps of K in flight."""

    bm: int
    bn: int
    wm: int
    wn: int
    stages: int

    @property
    def defines(self) -> dict[str, int]:
        """What the .cu file is compiled with."""
        return {"TKV_BM": self.bm, "TKV_BN": self.bn, "TKV_WM": self.wm, "TKV_WN": self.wn, "TKV_STAGES": self.stages}

    @property
    def shared(self) -> int:
        """Bytes of shared memory: every stage holds 64 values of k for bm + bn rows."""
        return self.stages * (self.bm + self.bn) * 64 * 2


NARROW = Tile(32, 64, 2, 2, 6)
SMALL = Tile(64, 32, 4, 1, 6)
LARGE = Tile(128, 64, 4, 1, 4)
LONG_K = 2048  # from here on one block would take long: the chunks go to several
BLOCKS_WANTED, BLOCKS_FEW = 800, 40


def chunk_of(n: int, k: int) -> int:
    """Length of the K-chunks of a layer [N, K]; by its shape alone, or a row's bits would depend on its mates."""
    chunks = min(CHUNKS_LIMIT, max(1, ceil_div(8 * WARPS_WANTED, n)))
    return ceil_div(ceil_div(k, chunks), CHUNK_STEP) * CHUNK_STEP


def tile_for(rows: int, outputs: int, width: int, arch: int) -> tuple[Tile, int]:
    """The tile for [rows, outputs] with K = width, and in how many parts its chunks go. Never changes bits."""
    large = ceil_div(rows, LARGE.bm) * ceil_div(outputs, LARGE.bn)
    if rows > SMALL.bm and large >= 200 and SHARED_LIMIT[arch] * 1024 >= LARGE.shared:
        return LARGE, 1
    tile = NARROW if rows <= NARROW.bm else SMALL
    blocks = ceil_div(rows, tile.bm) * ceil_div(outputs, tile.bn)
    return tile, max(1, BLOCKS_WANTED // blocks) if width >= LONG_K or blocks < BLOCKS_FEW else 1


def tiled(x: Any, arch: int) -> bool:
    """Do products of this x [T, K] run on the tensor cores?"""
    return dtype_code(x) != 0 and x.shape[1] % 8 == 0 and arch >= MMA_ARCH


def product(path: str, x: Any, w: Any, bias: Any, gate: Any, residual: Any, *, out_float32: bool) -> Any:
    """x [T, K], w [N, K] -> [T, N] by the kernels of the file `path`."""
    rows, width = x.shape
    outputs = w.shape[0]
    same("w", w, (outputs, width), x.dtype)
    whole = (rows, outputs)
    for name, array, shape in (("bias", bias, (outputs,)), ("gate", gate, whole), ("residual", residual, whole)):
        if array is not None:
            same(name, array, shape, x.dtype)
    out = empty(x, (rows, outputs), "float32" if out_float32 else None)
    defines = {"TKV_DTYPE": dtype_code(x), "TKV_OUT_F32": int(out_float32)}
    terms, arch = (bias, gate, residual), loader.arch_of(x)
    # The choice of arithmetic is the layer's; only between rows and tiles does T decide.
    if not tiled(x, arch):
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
    partial = empty(x, (chunks, rows, outputs), "float32") if parts > 1 else None
    built = defines | {"TKV_PATH": 2, "TKV_SPLIT": int(parts > 1), "TKV_PAIRS": int(outputs % 2 == 0)} | tile.defines
    kernel = loader.kernel(path, "linear_tiles", x, built)
    grid = (ceil_div(rows, tile.bm), ceil_div(outputs, tile.bn), parts)
    arguments = (x, w, *terms, out, partial, rows, outputs, width, chunk, chunks)
    kernel(grid, (32 * tile.wm * tile.wn, 1, 1), arguments, shared=tile.shared, early=True)
    if parts > 1:
        reduce = loader.kernel(path, "linear_reduce", x, built)
        terms_and_sizes = (partial, *terms, out, rows, outputs, chunks)
        reduce((ceil_div(rows * outputs, 256), 1, 1), (256, 1, 1), terms_and_sizes, early=True)
