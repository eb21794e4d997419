"""How the two products of attention are computed on this machine: found by trying, never assumed.

Letters: N out, K in, R query rows, which are the columns of a product: block [.., N, K] @ columns [.., K, R] gives
[.., N, R]. So the scores of a block lie position by position, and all that follows in a tile runs along the query rows.

    framed          any number of query tokens, the columns filled up to eight, or between eight of zeros on either
                    side; see framed.py
    small           tiles of 8, 4 or 2 query tokens, or one query at a time, with lanes of zeros beside it
    small, turned   the same numbers by columns.T @ block.T, copied back
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK
from cuda_kernels.common.types import F32
from cuda_kernels.reference.blas_threads import single
from cuda_kernels.reference.framed import FRAME, frame
from cuda_kernels.reference.products import MOST_WORK

Multiply = Callable[[F32, F32, F32], None]
MOST_TOKENS = 64
MOST_COLUMNS = 256  # beyond about 300, BLAS cuts a framed product in two, and each part has ends
COMPANIES = (2, 3, 5, 8, 11, 16, 31, 64)


class Forms(NamedTuple):
    """lanes: columns of a single query's product. step: query tokens of a tile, 1 = no tiles; framed: or fewer.
    multiply(block [.., N, K], columns [.., K, R], out [.., N, R]) fills out."""

    lanes: int
    step: int
    multiply: Multiply
    framed: bool = False

    def columns(self, q: F32) -> tuple[F32, slice]:
        """q [u, g, D] -> (columns [n, D, R] of n tiles, which of the R are query rows)."""
        count, g, dim = q.shape
        if self.framed:
            full, before = frame(q.reshape(1, count * g, dim))
            return np.ascontiguousarray(full.swapaxes(-1, -2)), slice(before, before + count * g)
        tiles = -(-count // self.step)
        full = np.zeros((tiles * self.step, g, dim), np.float32)
        full[:count] = q
        turned = full.reshape(tiles, self.step * g, dim).swapaxes(-1, -2)
        return np.ascontiguousarray(turned), slice(0, self.step * g)


def widened(rows: F32, lanes: int) -> F32:
    """rows [.., g, K] -> columns [.., K, lanes], those behind the g zero."""
    columns = np.zeros((*rows.shape[:-2], rows.shape[-1], lanes), np.float32)
    for i in range(rows.shape[-2]):  # one by one: NumPy would walk along the g, a few numbers at a time
        columns[..., i] = rows[..., i, :]
    return columns


def straight(block: F32, columns: F32, out: F32) -> None:
    """block [.., N, K], columns [.., K, R] -> out [.., N, R]."""
    np.matmul(block, columns, out=out)


def turned(block: F32, columns: F32, out: F32) -> None:
    """The same as a product of rows, which BLAS adds in another order."""
    out[...] = np.matmul(np.ascontiguousarray(columns.swapaxes(-1, -2)), block.swapaxes(-1, -2)).swapaxes(-1, -2)


def candidates(group: int, dim: int) -> Iterator[Forms]:
    """From the cheapest on; the caller's last resort is one query at a time."""
    if group <= FRAME:
        yield Forms(FRAME, min(MOST_TOKENS, MOST_COLUMNS // group), straight, framed=True)
    for multiply in (straight, turned):
        for step in (s for s in (8, 4, 2) if s * group * dim * BLOCK <= MOST_WORK):
            for lanes in sorted({group, max(group, 2), -(-group // 4) * 4, -(-group // 8) * 8}):
                yield Forms(lanes, step, multiply)


@cache
def stable_forms(group: int, dim: int) -> Forms:
    """The first form whose rows have in a tile the bits they have alone, in both products of attention."""
    with single().hold():
        return next((f for f in candidates(group, dim) if is_stable(f, group, dim)), Forms(group, 1, straight))


def is_stable(forms: Forms, group: int, dim: int) -> bool:
    """Keys x queries and values x weights, query by query and as tiles: same bits?"""
    generator = np.random.default_rng(dim * 1009 + group)
    cached = generator.standard_normal((2, BLOCK, dim), dtype=np.float32)
    for block in (cached, cached.swapaxes(-1, -2)):
        outs, depth = block.shape[1:]
        for tokens in companies(forms):
            q = generator.standard_normal((tokens, group, depth), dtype=np.float32)
            one_by_one = np.empty((tokens, 2, outs, forms.lanes), np.float32)
            forms.multiply(block, widened(q[:, None], forms.lanes), one_by_one)
            columns, own = forms.columns(q)
            together = np.empty((2, outs, columns.shape[-1]), np.float32)
            forms.multiply(block, columns, together)
            singly = one_by_one[..., :group].transpose(1, 2, 0, 3).reshape(2, outs, -1)
            if singly.tobytes() != together[..., own].tobytes():
                return False
    return True


def companies(forms: Forms) -> tuple[int, ...]:
    """Numbers of tokens in a tile to try."""
    return (*(n for n in COMPANIES if n < forms.step), forms.step) if forms.framed else (forms.step,)
