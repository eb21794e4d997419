"""Large BLAS products in which every row takes the same way through BLAS, whatever the row count.

Letters: T rows of x, K in, N out. x [T, K], w [N, K] -> y [T, N], all float32.

Seen with OpenBLAS 0.3.31 on Haswell to Zen 3 (AVX2), computing w @ x.T on one thread with N a multiple of 12: up to
fifteen rows all add in one order. In a larger product the first eight and the last eight rows add in another, those
between in the order of the few. So rows in number are framed by eight rows of zeros on either side.

        2 .. 12 rows       r r r r r r
        13 rows and more   0 0 0 0 0 0 0 0 r r r r r r r r r r r r r r r r 0 0 0 0 0 0 0 0

Whether it is so on the machine at hand is tried by `invariance`, never assumed.
"""

from __future__ import annotations

import numpy as np

from cuda_kernels.common.types import F32
from cuda_kernels.reference.blas_threads import single
from cuda_kernels.reference.threads import WORTH_THREADS, spread

FRAME = 8  # rows of zeros before and after
FEW = 12  # rows that need no frame
MOST = 256  # rows of one product: beyond about 300, BLAS cuts it in two, and each part has ends
UNIT = 12  # outputs come in multiples of this
OUTS = 16 * UNIT  # outputs that one thread takes at a time


def framed_products(x: F32, w: F32) -> F32:
    """x [T, K], w [N, K] -> [T, N]."""
    rows, outs = x.shape[0], w.shape[0]
    y, pieces = np.empty((rows, outs), np.float32), pieces_of(outs)
    slices = [slice(start, min(start + MOST, rows)) for start in range(0, rows, MOST)]
    # From two rows on: one row alone would be a vector, which adds in an order of its own.
    framed = [(part, *frame(x[part], FEW, 2)) for part in slices]

    def some(first: int, last: int) -> None:
        for begin, end in pieces[first:last]:
            for part, full, skip in framed:
                got = w[begin:end] @ full.T
                y[part, begin:end] = got[:, skip : skip + part.stop - part.start].T

    with single().hold():
        if rows * w.size < WORTH_THREADS:
            some(0, len(pieces))
        else:
            spread(len(pieces), some)
    return y


def frame(x: F32, few: int, least: int) -> tuple[F32, int]:
    """x [.., T, K] -> (the rows [.., T and zeros, K] of one product, how many rows of zeros come first).

    Up to `few` rows need no frame: they are only filled up to a multiple of `least`.
    """
    rows = x.shape[-2]
    # guard[row-frame]: the rows at either end of a large product add in another order than those between
    # mutant[row-frame/removed]:
    #   - before = FRAME if rows > few else 0
    #   + before = 0
    # mutant[row-frame/none-behind]:
    #   - before = FRAME if rows > few else 0
    #   - after = FRAME if rows > few else 0
    #   + before = FRAME if rows > few else 0
    #   + after = 0
    before = FRAME if rows > few else 0
    after = FRAME if rows > few else 0
    unit = FRAME if rows > few else least
    total = before + -(-rows // unit) * unit + after
    if total == rows:
        return x, 0
    full = np.zeros((*x.shape[:-2], total, x.shape[-1]), np.float32)
    full[..., before : before + rows, :] = x
    return full, before


def pieces_of(outs: int) -> list[tuple[int, int]]:
    """Ranges of whole units of outputs. A rest overlaps its neighbour, so some outputs are computed twice, alike."""
    even = outs - outs % UNIT
    pieces = [(begin, min(begin + OUTS, even)) for begin in range(0, even, OUTS)]
    if even != outs:
        pieces.append((max(0, outs - UNIT), outs))
    return pieces
