"""The matrix product y = x @ w.T in the forms that give one row the same bits in every company.

Letters: T rows of x, K in, N out. x [T, K], w [N, K] -> y [T, N], all float32.

Why forms at all: BLAS picks a routine by shape, and routines add in different orders. Measured with OpenBLAS 0.3.31 on
a SkylakeX core, all linear layers and the head of SmolLM2, one thread, ms:

    rows                                1     2     8    16    32    64   128
    as a vector                        38
    one product                              66    93   104   140   228   388
    small products                           41    58    78   120   200   438

A small product skips BLAS's copy of the weights into its own layout, which is most of the work for few rows. They stay
below the size from which OpenBLAS would spread one of them over threads, which moves its inner boundaries. And they
come in six shapes only (2, 4, .. 64 rows), so that `invariance` can try each of them on the machine at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cuda_kernels.common.types import F32
from cuda_kernels.reference.framed import FRAME, few_rows_at_once, framed_products, pad_rows
from cuda_kernels.reference.threads import spread_each

OUTS = 64  # outputs that one thread takes at a time
MOST_RESULTS = 1024  # of a small product: OpenBLAS calls a product small up to about here
LEAST_OUTS = 4  # of a small product of many rows: with two outputs, K = 1536 runs at 58 GFLOP/s, with four at 94
MOST_WORK = 1 << 18  # multiplications: OpenBLAS keeps a product up to this size on one thread

Form = Literal["small", "framed", "weights first", "rows first"]


@dataclass(frozen=True)
class Plan:
    """How one (N, K) is multiplied. Which T takes which form is fixed here, so it never depends on timing.

    name   for `doctor`
    form   "small": many small products, "framed": large ones in frames of outputs that nobody reads, both spread over
           the threads. Else one BLAS product, as (w @ x.T).T or x @ w.T
    least  one BLAS product: T is padded with zero rows to a multiple of this
    most   one BLAS product: larger T are cut into slices of this many rows
    together  framed: up to eight rows in one product over BLAS's own threads
    gemv   one row is multiplied as a vector: fastest, and not equal to the other forms
    """

    name: str
    form: Form
    least: int = 1
    most: int = 512
    gemv: bool = False
    together: bool = False


def product(x: F32, w: F32, plan: Plan) -> F32:
    """x [T, K], w [N, K] -> a new [T, N]."""
    return products(x, [w], plan)[0]


def products(x: F32, ws: Sequence[F32], plan: Plan) -> list[F32]:
    """x [T, K] with several weights [N, K] of one plan -> a new [T, N] each. Together they are spread in one go."""
    rows = x.shape[0]
    if plan.gemv and rows == 1:
        return [(w @ x[0])[None] for w in ws]
    if plan.form == "small":
        return small_products(x, ws)
    if plan.form == "framed":
        together = plan.together and rows <= FRAME
        return [few_rows_at_once(x, w) for w in ws] if together else framed_products(x, ws)
    return [whole_products(x, w, plan) for w in ws]


def whole_products(x: F32, w: F32, plan: Plan) -> F32:
    """x [T, K], w [N, K] -> [T, N] in BLAS products of up to `plan.most` rows."""
    rows = x.shape[0]
    y = np.empty((rows, w.shape[0]), np.float32)
    for start in range(0, rows, plan.most):
        part = slice(start, min(start + plan.most, rows))
        count = part.stop - start
        padded = pad_rows(x[part], -(-count // plan.least) * plan.least)
        y[part] = (w @ padded.T).T[:count] if plan.form == "weights first" else (padded @ w.T)[:count]
    return y


def small_products(x: F32, ws: Sequence[F32]) -> list[F32]:
    """x [T, K], each w [N, K] -> [T, N] in products of 2, 4, .. or 64 rows."""
    rows, width = x.shape
    tiles = cover(rows, most_rows(width))
    total = sum(tile * count for tile, count in tiles)
    x, ys = pad_rows(x, total), [np.empty((total, w.shape[0]), np.float32) for w in ws]

    def some(which: int, start: int, stop: int) -> None:
        _groups(x, ws[which], ys[which], tiles, range(start * OUTS, min(stop * OUTS, ws[which].shape[0])))

    spread_each([-(-w.shape[0] // OUTS) for w in ws], sum(w.size for w in ws) * total, some)
    return [y[:rows] for y in ys]


def _groups(x: F32, w: F32, y: F32, tiles: list[tuple[int, int]], outs: range) -> None:
    """The outputs `outs` of one weight: x [T, K], w [N, K] -> y [T, N], T as `tiles` cover it."""
    # One tile: one pass over all weights. Several: a group of weights at a time, while it lies in the core's cache.
    step = len(outs) if sum(count for _, count in tiles) == 1 else OUTS
    for first in outs[::step]:
        last, row = min(first + step, outs.stop), 0
        begin = max(0, min(first, last - OUTS))  # a narrow last group is filled up with its neighbour's outputs
        # guard[own-outputs]: they are not written a second time, for their own thread may be at it
        # mutant[own-outputs/neighbours-too]:
        #   - into = y[:, begin:last] if begin == first else np.empty((y.shape[0], last - begin), np.float32)
        #   + into = y[:, begin:last]
        into = y[:, begin:last] if begin == first else np.empty((y.shape[0], last - begin), np.float32)
        for tile, count in tiles:
            part = slice(row, row + tile * count)
            _tiles(x[part], w[begin:last], into[part], tile)
            row = part.stop
        if begin < first:
            y[:, first:last] = into[:, first - begin :]


def cover(rows: int, most: int) -> list[tuple[int, int]]:
    """(tile, count): tiles of `most` rows, then smaller powers of two, that cover all rows with few padding rows."""
    tiles = [(most, rows // most)] if rows >= most else []
    left = rows % most
    while left:
        # guard[row-padding]: BLAS picks its routine by the row count, so a tile has one of six counts and no other
        # mutant[row-padding/removed]:
        #   - tile = max(2, 1 << (left - 1).bit_length())
        #   + tile = left
        tile = max(2, 1 << (left - 1).bit_length())
        if tile > 16 and tile - left > tile // 4:
            tile //= 2
        tiles.append((tile, 1))
        left = max(0, left - tile)
    return tiles


def _tiles(x: F32, w: F32, y: F32, tile: int) -> None:
    """x [n * tile, K], w [N, K] -> y [n * tile, N]: each product takes `tile` rows and a block of outputs."""
    outs, width = w.shape
    block = min(outs_of(tile, width), 1 << (outs.bit_length() - 1))
    even = outs - outs % block
    turned = x.reshape(-1, 1, tile, width)
    into = y[:, :even].reshape(-1, tile, even // block, block).swapaxes(1, 2)
    np.matmul(turned, w[:even].reshape(-1, block, width).swapaxes(1, 2), out=into)
    if even != outs:
        # guard[odd-outputs]: a narrower last block could be a vector, which adds in another order; so it overlaps
        # mutant[odd-outputs/narrow]:
        #   - np.matmul(turned[:, 0], w[outs - block :].T, out=y[:, outs - block :].reshape(-1, tile, block))
        #   + np.matmul(turned[:, 0], w[even:].T, out=y[:, even:].reshape(-1, tile, outs - even))
        np.matmul(turned[:, 0], w[outs - block :].T, out=y[:, outs - block :].reshape(-1, tile, block))


def most_rows(width: int) -> int:
    """Rows of the largest small product for K = width: a power of two, at least 2 and at most 64."""
    tile = 64
    while tile > 2 and tile * LEAST_OUTS * width > MOST_WORK:
        tile //= 2
    return tile


def outs_of(tile: int, width: int) -> int:
    """Outputs of a small product of `tile` rows: as many as keep it small, and 2 at least."""
    block = OUTS
    while block > 2 and (tile * block > MOST_RESULTS or tile * block * width > MOST_WORK):
        block //= 2
    return block
