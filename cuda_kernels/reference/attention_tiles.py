"""Attention of whole chunks: many query tokens of one row per product. Used only where the products are stable.

Letters: U queries of a chunk, u of one pass, n tiles of `step` tokens in it, G KV heads, g query heads of each, r query
rows of a tile, L blocks of 64 positions, D head dim.

One KV head and one segment at a time: its scores, 4 blocks of 64 positions by about 200 columns, stay in a core's
cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK
from cuda_kernels.common.types import F32, Array
from cuda_kernels.reference.attention_forms import Forms
from cuda_kernels.reference.scratch import scratch
from cuda_kernels.reference.softmax import PER_SEGMENT, Partial, finish, fold, join, weigh
from cuda_kernels.reference.spans import Index, Queries

TOKENS = 64  # of one pass


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


@dataclass(frozen=True, eq=False)
class Tile:
    """Some queries of a chunk that are computed in one pass.

    token         [u] in the packed token axis
    begin, stop   blocks of the chunk that any of them sees
    caps          block seen in part -> [n, 64, r]: infinity where a query sees a position, -infinity where not
    """

    chunk: int
    token: Index
    begin: int
    stop: int
    caps: dict[int, F32]


def tiles_of(chunk: Chunk, number: int, g: int, forms: Forms) -> list[Tile]:
    """The passes of one chunk: whole tiles, or one that is not full."""
    queries, size = chunk.queries, forms.step if forms.framed else max(forms.step, TOKENS)
    tiles = []
    for i in range(0, len(queries.token), size):
        first, last = (each[i : i + size] - chunk.start for each in (queries.first, queries.last))
        begin, stop = int(first[0]) // BLOCK, int(last[-1]) // BLOCK + 1
        step = len(first) if forms.framed else forms.step
        caps = caps_of(first, last, range(begin, stop), step, g)
        tiles.append(Tile(number, queries.token[i : i + size], begin, stop, caps))
    return tiles


def caps_of(first: Index, last: Index, blocks: range, step: int, g: int) -> dict[int, F32]:
    """What queries that see positions first .. last [u] do not see of `blocks`: block -> [n, 64, step * g]. Queries
    that fill up the last tile see what the last one sees, so that their sums are not empty; nobody reads them."""
    tiles = -(-len(first) // step)
    query = np.minimum(np.arange(tiles * step), len(first) - 1)
    low, high = (np.repeat(each[query], g).reshape(tiles, 1, step * g) for each in (first, last))
    caps = {}
    for block in blocks:
        positions = block * BLOCK + np.arange(BLOCK)[:, None]
        # guard[whole-blocks]: a block is left as it is only if every query sees all of it
        # mutant[whole-blocks/behind]:
        #   - if positions[0] < first[-1] or positions[-1] > last[0]:
        #   + if positions[0] < first[-1] or positions[-1] > last[-1]:
        # mutant[whole-blocks/before]:
        #   - if positions[0] < first[-1] or positions[-1] > last[0]:
        #   + if positions[0] < first[0] or positions[-1] > last[0]:
        if positions[0] < first[-1] or positions[-1] > last[0]:
            caps[block] = np.where((positions < low) | (positions > high), np.float32(-np.inf), np.float32(np.inf))
    return caps


def attend_tile(q: F32, keys: F32, values: F32, tile: Tile, forms: Forms) -> F32:
    """q [u, g, D] scaled, keys and values [L, 64, D] of one KV head from the chunk's start on -> [u, g, D]."""
    count, g, dim = q.shape
    columns, own = forms.columns(q)
    whole: list[Partial] = []  # none yet, or one
    begin = tile.begin
    while begin < tile.stop:
        end = min(tile.stop, (begin // PER_SEGMENT + 1) * PER_SEGMENT)
        shape = (len(columns), end - begin, BLOCK, columns.shape[-1])
        weights, mixed = scratch("weights", shape), scratch("mixed", (*shape[:2], dim, shape[3]))
        forms.multiply(keys[begin:end], columns[:, None], weights)
        seen = weights[..., own]
        for block in range(begin, end):
            if block in tile.caps:
                np.minimum(seen[:, block - begin], tile.caps[block], out=seen[:, block - begin])
        maxima, sums = weigh(seen.swapaxes(-1, -2))
        forms.multiply(values[begin:end].swapaxes(-1, -2), weights, mixed)
        part = fold(maxima, sums, mixed[..., own].swapaxes(-1, -2))
        # `mixed` is written anew for the next segment
        whole = [join(whole[0], part) if whole else part._replace(acc=part.acc.copy(order="K"))]
        begin = end
    return finish(whole[0]).reshape(-1, g, dim)[:count]
