"""The tiles that products of many tokens are cut into, and which one a product takes. No choice here changes a bit."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from cuda_kernels.raw.limits import SHARED_LIMIT
from cuda_kernels.raw.shapes import ceil_div, padded

MULTIPROCESSORS = 132


class Tile(NamedTuple):
    """One build of linear_tiles: block of bm tokens x bn outputs by wm x wn warps, `stages` steps of K in flight.

    warpgroups: multiplied by Hopper's warpgroup steps, by no other card.
    """

    bm: int
    bn: int
    wm: int
    wn: int
    stages: int
    warpgroups: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.wm * self.wn

    @property
    def defines(self) -> dict[str, int]:
        """What the .cu file is compiled with."""
        block = {"TKV_BM": self.bm, "TKV_BN": self.bn, "TKV_WM": self.wm, "TKV_WN": self.wn, "TKV_STAGES": self.stages}
        return block | {"TKV_THREADS": self.threads, "TKV_WGMMA": int(self.warpgroups)}

    @property
    def shared(self) -> int:
        """Bytes of shared memory: every stage holds 64 values of k for bm + bn rows, and counts what arrives."""
        return self.stages * (self.bm + self.bn) * 64 * 2 + (padded(8 * self.stages) if self.warpgroups else 0)


NARROW = Tile(32, 64, 2, 2, 6)
SMALL = Tile(64, 32, 4, 1, 6)
LARGE = Tile(128, 64, 4, 1, 4)
SQUARE = Tile(128, 128, 8, 1, 4, warpgroups=True)
WIDE = Tile(128, 192, 8, 1, 4, warpgroups=True)
PANEL_K = 64
LONG_K = 2048  # from here on one block would take long: the chunks go to several
BLOCKS_WANTED, BLOCKS_FEW = 800, 40
WARPGROUP_ARCH = 90
PANEL_ROWS, PANEL_BLOCKS = 256, 100  # what a product must exceed, that making panels pays
PANEL_SIDE, PANEL_BLOCKS_SMALL = 1024, 400  # of [N, K] with neither side longer


@lru_cache(maxsize=4096)
def tile_for(rows: int, outputs: int, width: int, arch: int) -> tuple[Tile, int]:
    """The tile for [rows, outputs] with K = width, and in how many parts its chunks go."""
    wanted = PANEL_BLOCKS if max(outputs, width) > PANEL_SIDE else PANEL_BLOCKS_SMALL
    if arch == WARPGROUP_ARCH and rows > PANEL_ROWS and blocks_of(SQUARE, rows, outputs) > wanted:
        return warpgroup_tile(rows, outputs), 1
    if rows > SMALL.bm and blocks_of(LARGE, rows, outputs) >= 200 and SHARED_LIMIT[arch] * 1024 >= LARGE.shared:
        return LARGE, 1
    tile = NARROW if rows <= NARROW.bm else SMALL
    blocks = blocks_of(tile, rows, outputs)
    return tile, max(1, BLOCKS_WANTED // blocks) if width >= LONG_K or blocks < BLOCKS_FEW else 1


def panelled(rows: int, hidden: int, width: int, arch: int) -> bool:
    """Do all of a layer's products of so many rows take panels? Then nothing between them is laid out anew. Of 2,200
    rows some are better off without."""
    whole_steps = hidden % PANEL_K == width % PANEL_K == 0
    return whole_steps and arch == WARPGROUP_ARCH and blocks_of(SQUARE, rows, hidden) > PANEL_BLOCKS_SMALL


def warpgroup_tile(rows: int, outputs: int) -> Tile:
    """The tile of warpgroups for [rows, outputs]. Both take panels of the same height."""
    return min(WIDE, SQUARE, key=lambda tile: rounds_of(tile, rows, outputs))


def blocks_of(tile: Tile, rows: int, outputs: int) -> int:
    """Blocks that cover [rows, outputs]."""
    return ceil_div(rows, tile.bm) * ceil_div(outputs, tile.bn)


def rounds_of(tile: Tile, rows: int, outputs: int) -> int:
    """How long a product takes: rounds of one block per multiprocessor, a round by its outputs and something more."""
    return ceil_div(blocks_of(tile, rows, outputs), MULTIPROCESSORS) * (tile.bn + 64)
