"""The matrix product y = x @ w.T in the forms that give one row the same bits in every company.

Letters: T rows of x, K in, N out. x [T, K], w [N, K] -> y [T, N], all float32.

Why forms at all: BLAS picks a routine by shape, and routines add in different orders. Measured with OpenBLAS 0.3.31 on
a SkylakeX core (linear layers of SmolLM2, two threads): one plain row 21 ms, the same row padded to 8 rows 47 ms,
because the weights are first copied into BLAS's own layout. Products of 16 rows x 64 outputs are small enough to skip
the copy, and add each K-chunk in plain order, as the large routine does: 30 ms for 1 to 16 rows, with the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuda_kernels.common.types import F32
from cuda_kernels.reference.threads import spread

TILE = 16  # rows of a small product
BLOCK = 64  # outputs of a small product
WORTH_THREADS = 1 << 17  # weights; below, waking a thread costs more than it saves


@dataclass(frozen=True)
class Plan:
    """How one (N, K) is multiplied. Which T takes which form is fixed here, so it never depends on timing.

    name    for `doctor`
    chunks  K-ranges of small products for T <= 16, added in order; None = not used
    least   T is padded with zero rows to a multiple of 8 and at least to this
    turn    up to this T the product is taken as (w @ x.T).T, beyond it as x @ w.T
    most    larger T are cut into slices of this many rows
    gemv    one row is multiplied as a vector: fastest, and not equal to the other forms
    """

    name: str
    chunks: tuple[tuple[int, int], ...] | None = None
    least: int = 8
    turn: int = 96
    most: int = 512
    gemv: bool = False


def product(x: F32, w: F32, plan: Plan) -> F32:
    """x [T, K], w [N, K] -> a new [T, N]."""
    rows = x.shape[0]
    if rows == 0:
        return np.zeros((0, w.shape[0]), np.float32)
    if plan.gemv and rows == 1:
        alone: F32 = w @ x[0]
        return alone[None]
    if plan.chunks is not None and rows <= TILE:
        return few_rows(x, w, plan.chunks)
    if rows <= plan.most:
        return many_rows(x, w, plan)
    y = np.empty((rows, w.shape[0]), np.float32)
    for start in range(0, rows, plan.most):
        y[start : start + plan.most] = product(x[start : start + plan.most], w, plan)
    return y


def many_rows(x: F32, w: F32, plan: Plan) -> F32:
    """One BLAS product over all rows, padded."""
    rows, width = x.shape
    padded = max(plan.least, -(-rows // 8) * 8) if plan.least > 1 else rows
    if padded != rows:
        # guard[row-padding]: BLAS picks its routine by the row count; zero rows make counts equal and touch no other
        # mutant[row-padding/removed]:
        #   - full = np.zeros((padded, width), np.float32)
        #   + full = np.zeros((rows, width), np.float32)
        full = np.zeros((padded, width), np.float32)
        full[:rows] = x
        x = full
    if rows > plan.turn:
        return (x @ w.T)[:rows]
    return np.ascontiguousarray((w @ x.T)[:, :rows].T)


def few_rows(x: F32, w: F32, chunks: tuple[tuple[int, int], ...]) -> F32:
    """Up to 16 rows as a stack of small products [64, K-chunk] @ [K-chunk, 16], spread over threads."""
    rows, width = x.shape
    outs = w.shape[0]
    turned = np.zeros((width, TILE), np.float32)
    turned[:, :rows] = x.T
    sums = np.empty((len(chunks), outs, TILE), np.float32)
    even = outs - outs % BLOCK
    stack = w[:even].reshape(-1, BLOCK, width)

    def some(start: int, stop: int) -> None:
        for (a, b), out in zip(chunks, sums, strict=True):
            blocks = out[:even].reshape(-1, BLOCK, TILE)
            np.matmul(stack[start:stop, :, a:b], turned[a:b], out=blocks[start:stop])

    if w.size < WORTH_THREADS:
        some(0, len(stack))
    else:
        spread(len(stack), some)
    for (a, b), out in zip(chunks, sums, strict=True):
        if even != outs:
            np.matmul(w[even:, a:b], turned[a:b], out=out[even:])
    return add_chunks(sums[:, :, :rows])


def add_chunks(sums: F32) -> F32:
    """sums [chunks, N, T] -> [T, N], chunk after chunk."""
    y = np.empty(sums.shape[:0:-1], np.float32)
    if len(sums) == 1:
        y[...] = sums[0].T
        return y
    np.add(sums[0].T, sums[1].T, out=y)
    for later in sums[2:]:
        y += later.T
    return y


def blas_chunks(width: int, most: int) -> tuple[tuple[int, int], ...]:
    """How OpenBLAS cuts K = width into ranges: `most` while twice as much is left, then two near halves."""
    cuts, start = [], 0
    while start < width:
        left = width - start
        step = most if left >= 2 * most else (-(-(left // 2) // 16) * 16 if left > most else left)
        cuts.append((start, start + step))
        start += step
    return tuple(cuts)
