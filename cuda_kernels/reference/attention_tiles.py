"""Attention of whole chunks: many query tokens of one row per product. Used only where the products are stable.

Letters: G KV heads, g query heads per KV head, n tiles of `step` tokens, L blocks of 64 positions, D head dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK
from cuda_kernels.common.types import F32, Array
from cuda_kernels.reference.attention_forms import Forms
from cuda_kernels.reference.softmax import PER_SEGMENT, fold, joins_of, merge, weigh
from cuda_kernels.reference.spans import Index, Queries

MOST_SCORES = 1 << 22


@dataclass(frozen=True, eq=False)
class Chunk:
    """The queries of one row, neighbours in position: first [U] and last [U] ascend."""

    queries: Queries

    @property
    def start(self) -> int:
        """First position of the row's first segment that any query sees."""
        size = BLOCK * PER_SEGMENT
        return int(self.queries.first[0]) // size * size

    def aligned(self, cache: Array) -> F32:
        """A copy [G, L, 64, D] of what the chunk sees, blocks at positions; zeros elsewhere, never what lies there."""
        first, stop = int(self.queries.first[0]), int(self.queries.last[-1]) + 1
        pad, row = int(self.queries.pad[0]), int(self.queries.row[0])
        groups, _, dim = cache.shape[1:]
        length = -(-(stop - self.start) // BLOCK) * BLOCK
        copy = np.zeros((groups, length, dim), np.float32)
        copy[:, first - self.start : stop - self.start] = cache[row, :, pad + first : pad + stop]
        return copy.reshape(groups, -1, BLOCK, dim)


def tokens_at_once(heads: int, blocks: int, forms: Forms) -> int:
    """Query tokens per pass: whole tiles, or one tile, so that scores stay bounded however long the row is."""
    fits = MOST_SCORES // (heads * blocks * BLOCK)
    if forms.any_number:
        return max(1, min(forms.step, fits))
    return max(forms.step, min(64, fits // forms.step * forms.step))


def attend_tile(q: F32, keys: F32, values: F32, first: Index, last: Index, start: int, forms: Forms) -> F32:
    """q [u, G, g, D] scaled, keys and values [G, L, 64, D] from position `start`, spans [u] -> [u, G, g, D]."""
    count, groups, g, dim = q.shape
    step = count if forms.any_number else forms.step
    tiles = -(-count // step)
    skip = (int(first[0]) - start) // (BLOCK * PER_SEGMENT) * PER_SEGMENT
    begin, stop = start + skip * BLOCK, (int(last[-1]) - start) // BLOCK + 1
    used = stop - skip
    segments = -(-used // PER_SEGMENT)
    per = used if segments == 1 else PER_SEGMENT
    full = np.zeros((tiles * step, groups, g, dim), np.float32)
    full[:count] = q
    turned = full.reshape(tiles, step, groups, g, dim).transpose(2, 0, 1, 3, 4).reshape(groups, tiles, 1, step * g, dim)
    scores = np.empty((groups, tiles, segments * per, step * g, BLOCK), np.float32)
    scores[:, :, used:] = -np.inf
    forms.multiply(turned, keys[:, None, skip:stop], scores[:, :, :used])
    hide(scores[:, :, :used], first, last, begin, step)
    shaped = scores.reshape(groups, tiles * segments, per, step * g, BLOCK)
    maxima, sums = weigh(shaped)
    mixed = np.zeros((*scores.shape[:-1], dim), np.float32)
    forms.multiply(scores[:, :, :used], values[:, None, skip:stop].swapaxes(-1, -2), mixed[:, :, :used])
    m, total, acc = fold(maxima, sums, mixed.reshape(*shaped.shape[:-1], dim))
    out = merge(m, total, acc, joins_of(np.full(tiles, segments)))
    return out.reshape(groups, tiles * step, g, dim).swapaxes(0, 1)[:count]


def hide(scores: F32, first: Index, last: Index, begin: int, step: int) -> None:
    """Put -inf where a query of scores [G, n, L, step * g, 64] does not see a position. Padding queries see position 0
    of the run, so that their sums are not empty; nobody reads them."""
    groups, tiles, blocks, rows, _ = scores.shape
    low, high = np.full(tiles * step, begin), np.full(tiles * step, begin)
    low[: len(first)], high[: len(last)] = first, last
    positions = begin + np.arange(blocks * BLOCK).reshape(1, blocks, 1, BLOCK)
    low, high = (x.reshape(tiles, 1, step, 1) for x in (low, high))
    dead = (positions < low) | (positions > high)
    view = scores.reshape(groups, tiles, blocks, step, rows // step, BLOCK)
    np.copyto(view, -np.inf, where=dead[None, :, :, :, None])
