"""Large BLAS products in which every row takes the same way through BLAS, whatever the row count.

Letters: T rows of x, K in, N out. x [T, K], w [N, K] -> y [T, N], all float32.

Seen with OpenBLAS 0.3.31 on Haswell to Zen 3 (AVX2), computing w @ x.T on one thread with N a multiple of 12: eight
rows all add in one order. In a larger product the first eight and the last eight rows add in another, those between in
the order of the eight. So rows in number lie between eight rows of zeros on either side.

         1 .. 8 rows       r r r r r 0 0 0
         9 rows and more   0 0 0 0 0 0 0 0 r r r r r r r r r r r r r r r 0 0 0 0 0 0 0 0 0

Whether it is so on the machine at hand is tried by `invariance`, never assumed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuda_kernels.common.types import F32
from cuda_kernels.reference.blas_threads import single
from cuda_kernels.reference.threads import spread_each, thread_count

FRAME = 8  # rows of zeros before and after; also the rows that one product takes without a frame
MOST = 256  # rows of one product: beyond about 300, BLAS cuts it in two, and each part has ends
UNIT = 12  # outputs come in multiples of this
OUTS = 16 * UNIT  # outputs that one thread takes at a time


def framed_products(x: F32, ws: Sequence[F32]) -> list[F32]:
    """x [T, K], each w [N, K] -> [T, N], a few outputs at a time, shared out to our own threads."""
    rows = x.shape[0]
    ys, pieces = [np.empty((rows, w.shape[0]), np.float32) for w in ws], [pieces_of(w.shape[0], OUTS) for w in ws]
    framed = [(slice(a, min(a + MOST, rows)), *frame(x[a : a + MOST])) for a in range(0, rows, MOST)]

    def some(which: int, first: int, last: int) -> None:
        w, y = ws[which], ys[which]
        for begin, end, own in pieces[which][first:last]:
            for part, full, skip in framed:
                got = np.matmul(w[begin:end], full.T)[own - begin :]
                y[part, own:end] = got[:, skip : skip + part.stop - part.start].T

    with single().hold():
        spread_each([len(each) for each in pieces], rows * sum(w.size for w in ws), some)
    return ys


def few_rows_at_once(x: F32, w: F32) -> F32:
    """x [T, K] with T up to FRAME, w [N, K] -> [T, N] in one product over BLAS's own threads: sharing it out costs more
    than the product. The outputs are a multiple of what every thread needs for whole units; the rest comes after."""
    rows, outs = x.shape[0], w.shape[0]
    y, full = np.empty((rows, outs), np.float32), frame(x)[0]
    for begin, end, own in pieces_of(outs, outs, 2 * UNIT * thread_count()):
        y[:, own:end] = np.matmul(w[begin:end], full.T)[own - begin :, :rows].T
    return y


def frame(x: F32) -> tuple[F32, int]:
    """x [.., T, K] -> (the rows [.., T and zeros, K] of one product, how many rows of zeros come first)."""
    rows = x.shape[-2]
    # guard[row-frame]: the rows at either end of a large product add in another order than those between
    # mutant[row-frame/removed]:
    #   - before = FRAME if rows > FRAME else 0
    #   + before = 0
    # mutant[row-frame/none-behind]:
    #   - before = FRAME if rows > FRAME else 0
    #   - after = FRAME if rows > FRAME else 0
    #   + before = FRAME if rows > FRAME else 0
    #   + after = 0
    before = FRAME if rows > FRAME else 0
    after = FRAME if rows > FRAME else 0
    total = before + -(-rows // FRAME) * FRAME + after
    if total == rows:
        return x, 0
    full = np.zeros((*x.shape[:-2], total, x.shape[-1]), np.float32)
    full[..., before : before + rows, :] = x
    return full, before


def pieces_of(outs: int, size: int, unit: int = UNIT) -> list[tuple[int, int, int]]:
    """(begin, end, own): outputs to compute, multiples of `unit`, then of UNIT, and the first of them to write."""
    main, even = outs - outs % unit, outs - outs % UNIT
    pieces = [(begin, min(begin + size, main), begin) for begin in range(0, main, size)]
    pieces += [(begin, begin + UNIT, begin) for begin in range(main, even, UNIT)]
    if even != outs:
        # guard[one-writer]: the last piece is filled up with its neighbour's outputs, which another thread may write
        # at the same time; alike is not sure, so each output has one piece that writes it
        # mutant[one-writer/both]:
        #   - pieces.append((max(0, outs - UNIT), outs, even))
        #   + pieces.append((max(0, outs - UNIT), outs, max(0, outs - UNIT)))
        pieces.append((max(0, outs - UNIT), outs, even))
    return pieces
