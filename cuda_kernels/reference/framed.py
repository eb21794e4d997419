"""Large BLAS products in which every row takes the same way through BLAS, whatever the row count.

Letters: T rows of x, K in, N out. x [T, K], w [N, K] -> y [T, N], all float32.

Seen with OpenBLAS 0.3.31 on Haswell to Zen 3 (AVX2), on one thread: it adds in two orders. Of x @ w.T with T a multiple
of 12, the first eight and the last eight outputs come in one order in every other six rows, all else in the other. So
outputs are computed between eight more on either side that nobody reads: their neighbours, or rows of zeros where a
weight ends. Of w @ x.T with N a multiple of 12, up to eight rows all come in that other order.

    inside of w      n n n n n n n n o o o o o o o o o o o o o o o o o n n n n n n n n      o outputs, n neighbours
    both its ends    0 0 0 0 0 0 0 0 o o o o o o o o o o o o o o o o 0 0 0 0 0 0 0 0        eight first, eight last

Whether it is so on the machine at hand is tried by `invariance`, never assumed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuda_kernels.common.types import F32
from cuda_kernels.reference.blas_threads import single
from cuda_kernels.reference.scratch import scratch
from cuda_kernels.reference.threads import share, spread_each, thread_count

FRAME = 8  # outputs before and after; also the rows that one product takes without a frame
MOST = 528  # rows of one product: with more of them, its copies of them leave the cache
ROWS = 12  # rows beyond eight come in multiples of this
UNIT = 12  # outputs of up to eight rows come in multiples of this
OUTS = 16 * UNIT  # of one product of up to eight rows
INNER = 280  # of one product of more, those that nobody reads not counted: beyond about 320, BLAS cuts it in two


def framed_products(x: F32, ws: Sequence[F32]) -> list[F32]:
    """x [T, K], each w [N, K] -> [T, N], a few outputs at a time, shared out to our own threads."""
    rows = x.shape[0]
    ys, parts = [np.empty((rows, w.shape[0]), np.float32) for w in ws], max(1, -(-rows // MOST))
    with single().hold():
        if rows <= FRAME:
            few_rows(x, ws, ys)
        else:
            for part in evenly(0, rows, parts, ROWS):
                many_rows(x[part], ws, [y[part] for y in ys])
    return ys


def many_rows(x: F32, ws: Sequence[F32], ys: Sequence[F32]) -> None:
    """x [T, K] with T up to MOST, each w [N, K] into y [T, N]."""
    rows, inner = x.shape[0], [inside(w.shape[0]) for w in ws]
    full = pad_rows(x, -(-rows // ROWS) * ROWS)
    jobs: list[tuple[F32, int, list[F32]]] = []  # weights, which of them come before the outputs, where these go
    for w, y, span in zip(ws, ys, inner, strict=True):
        for own in evenly(span.start, span.stop, -(-len(span) // INNER), FRAME):
            # guard[output-frame]: the outputs at either end of a product add in another order than those between
            # mutant[output-frame/removed]:
            #   - jobs.append((w[own.start - FRAME : own.stop + FRAME], FRAME, [y[:, own]]))
            #   + jobs.append((w[own], 0, [y[:, own]]))
            # mutant[output-frame/none-behind]:
            #   - jobs.append((w[own.start - FRAME : own.stop + FRAME], FRAME, [y[:, own]]))
            #   + jobs.append((w[own.start - FRAME : own.stop], FRAME, [y[:, own]]))
            jobs.append((w[own.start - FRAME : own.stop + FRAME], FRAME, [y[:, own]]))
    ends = [part for w, span in zip(ws, inner, strict=True) for part in (w[: span.start], w[span.stop :])]
    into = [part for y, span in zip(ys, inner, strict=True) for part in (y[:, : span.start], y[:, span.stop :])]
    jobs.append((*frame(np.concatenate(ends)), into))

    def one(job: tuple[F32, int, list[F32]]) -> None:
        w, at, into = job
        wide = np.matmul(full, w.T, out=scratch("outputs", (len(full), len(w))))
        for y in into:
            y[...] = wide[:rows, at : at + y.shape[1]]
            at += y.shape[1]

    share(jobs, one, rows * sum(w.size for w in ws))


def inside(outs: int) -> range:
    """The outputs that have FRAME neighbours on either side, a multiple of FRAME; none of few."""
    return range(FRAME + outs % FRAME, outs - FRAME) if outs >= 4 * FRAME else range(outs, outs)


def evenly(start: int, stop: int, pieces: int, unit: int) -> list[slice]:
    """start .. stop in at most so many slices of about equal length, all but the last whole units."""
    size = -(-(stop - start) // (max(pieces, 1) * unit)) * unit
    return [slice(a, min(a + size, stop)) for a in range(start, stop, max(size, 1))]


def few_rows(x: F32, ws: Sequence[F32], ys: Sequence[F32]) -> None:
    """x [T, K] with T up to FRAME, each w [N, K] into y [T, N]."""
    rows, turned, pieces = x.shape[0], pad_rows(x, FRAME).T, [pieces_of(w.shape[0], OUTS) for w in ws]

    def some(which: int, first: int, last: int) -> None:
        for begin, end, own in pieces[which][first:last]:
            ys[which][:, own:end] = np.matmul(ws[which][begin:end], turned)[own - begin :, :rows].T

    spread_each([len(each) for each in pieces], rows * sum(w.size for w in ws), some)


def few_rows_at_once(x: F32, w: F32) -> F32:
    """x [T, K] with T up to FRAME, w [N, K] -> [T, N] in one product over BLAS's own threads: sharing it out costs more
    than the product. The outputs are a multiple of what every thread needs for whole units; the rest comes after."""
    rows, outs = x.shape[0], w.shape[0]
    y, full = np.empty((rows, outs), np.float32), pad_rows(x, FRAME)
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


def pad_rows(x: F32, count: int) -> F32:
    """x [T, K] with zero rows up to `count`."""
    rows, width = x.shape
    if count == rows:
        return x
    full = np.zeros((count, width), np.float32)
    full[:rows] = x
    return full


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
