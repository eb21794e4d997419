"""How the two products of attention are computed on this machine: found by trying, never assumed.

Letters: R rows of one product, K in, N out, g query heads per KV head. rows [.., R, K], block [.., N, K] -> [.., R, N].

    small    rows @ block.T. Tiles of 8, 4 or 2 query tokens, or one query at a time, with lanes of zeros beside it
    framed   block @ rows.T, the rows padded to eight, or between eight rows of zeros on either side; see framed.py.
             Any number of query tokens at a time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK
from cuda_kernels.common.types import F32
from cuda_kernels.reference.blas_threads import single
from cuda_kernels.reference.framed import FRAME, MOST, frame
from cuda_kernels.reference.products import MOST_WORK

Multiply = Callable[[F32, F32, F32], None]


class Forms(NamedTuple):
    """lanes: rows of a single query's product. step: query tokens of a tile, 1 = no tiles; any_number: or fewer.
    multiply(rows, block, out) fills out [.., R, N]."""

    lanes: int
    step: int
    multiply: Multiply
    any_number: bool = False


MOST_TOKENS = 64
COMPANIES = (2, 3, 5, 8, 11, 16, 31, 64)


def small(rows: F32, block: F32, out: F32) -> None:
    """rows [.., R, K], block [.., N, K] -> out [.., R, N], as one product of R rows."""
    np.matmul(rows, block.swapaxes(-1, -2), out=out)


def framed(rows: F32, block: F32, out: F32) -> None:
    """The same as a product of the block with the rows, which lie in eights and, if they are more, in a frame."""
    count = rows.shape[-2]
    full, before = frame(rows)
    out[...] = np.matmul(block, full.swapaxes(-1, -2))[..., before : before + count].swapaxes(-1, -2)


def candidates(group: int, dim: int) -> Iterator[Forms]:
    """From the cheapest on; the caller's last resort is one query at a time."""
    for step in (s for s in (8, 4, 2) if s * group * dim * BLOCK <= MOST_WORK):
        for lanes in sorted({group, max(group, 2), -(-group // 4) * 4, -(-group // 8) * 8}):
            yield Forms(lanes, step, small)
    if group <= FRAME:
        yield Forms(group, min(MOST_TOKENS, MOST // group), framed, any_number=True)


@cache
def stable_forms(group: int, dim: int) -> Forms:
    """The first form whose rows have in a tile the bits they have alone, in both products of attention."""
    with single().hold():
        return next((f for f in candidates(group, dim) if is_stable(f, group, dim)), Forms(group, 1, small))


def is_stable(forms: Forms, group: int, dim: int) -> bool:
    """Queries x keys and weights x values, query by query and as tiles: same bits?"""
    generator = np.random.default_rng(dim * 1009 + group)
    for outs, depth in ((BLOCK, dim), (dim, BLOCK)):
        block = generator.standard_normal((2, outs, depth), dtype=np.float32)
        for tokens in companies(forms):
            rows = generator.standard_normal((tokens, group, depth), dtype=np.float32)
            alone = np.zeros((tokens, 1, forms.lanes, depth), np.float32)
            alone[:, 0, :group] = rows
            one_by_one = np.empty((tokens, 2, forms.lanes, outs), np.float32)
            together = np.empty((2, tokens * group, outs), np.float32)
            forms.multiply(alone, block, one_by_one)
            forms.multiply(rows.reshape(1, tokens * group, depth), block, together)
            if one_by_one[:, :, :group].swapaxes(0, 1).reshape(together.shape).tobytes() != together.tobytes():
                return False
    return True


def companies(forms: Forms) -> tuple[int, ...]:
    """Numbers of tokens in a tile to try."""
    return (*(n for n in COMPANIES if n < forms.step), forms.step) if forms.any_number else (forms.step,)
