"""Attention query by query, many queries side by side: decode, and prefill where tiles are not stable.

Letters: U queries, G KV heads, H query heads, g = H / G, R lanes of one product, E blocks of which a query sees
something, N outputs of a product, K its depth, D head dim. The blocks of all queries lie in one line, query after
query, in whole segments:

    query       0          1     2
    segment     0    1     2     3    4    5
    block       0123 4567  89..  .... .... ....

So a long query costs its own length and not that of its neighbours. Every product has the same shape, [64, D] @ [D, R]
or [D, 64] @ [64, R], so that nothing can depend on the company. The g query rows of a KV head are the first of R lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cuda_kernels.common.attention_spec import BLOCK
from cuda_kernels.common.types import F32, Array
from cuda_kernels.reference.attention_forms import Forms, widened
from cuda_kernels.reference.scratch import scratch
from cuda_kernels.reference.softmax import PER_SEGMENT, Joins, fold, joins_of, merge, weigh
from cuda_kernels.reference.spans import Index, Queries
from cuda_kernels.reference.threads import pieces_at_once

MOST_BLOCKS = 48  # of one KV head in one portion, unless a single query has more
# Blocks of one KV head for each thread. Below, threads wait for the interpreter, and for those that BLAS keeps awake: a
# step of eight rows, 40 blocks, took about 165 ms with its attention on two threads and 143 on one.
WORTH_THREADS = 100
AT_ONCE = 1 << 18  # floats taken from the cache at once: they stay in a core's own cache until they are multiplied


@dataclass(frozen=True, eq=False)
class Portion:
    """Queries that one thread computes, and which blocks they see."""

    queries: Queries
    per: int  # blocks of a segment
    joins: Joins
    length: int  # blocks of the line
    place: Index  # [E] where in the line each block lies
    query: Index  # [E] whose it is
    columns: Index  # [E, 64] of the cache
    dead: npt.NDArray[np.bool_]  # [E, 64]: positions that the query does not see


def portions_of(queries: Queries) -> list[Portion]:
    """Successive queries in portions of about equal work: one per thread where that pays, more if they are long."""
    if not len(queries.token):
        return []
    done = np.cumsum(queries.blocks)
    total = int(done[-1])
    count = max(1, min(pieces_at_once(), total // WORTH_THREADS), -(-total // MOST_BLOCKS))
    which = (done - 1) * count // total
    return [_portion(queries.pick(np.flatnonzero(which == i))) for i in np.unique(which)]


def _portion(queries: Queries) -> Portion:
    segments, blocks = queries.segments, queries.blocks
    skipped = queries.first // BLOCK % PER_SEGMENT  # empty blocks before the first
    # A lone segment leaves out its last, empty blocks.
    per = int((skipped + blocks).max()) if int(segments.max()) == 1 else PER_SEGMENT
    query = np.repeat(np.arange(len(blocks)), blocks)
    nth = np.arange(len(query)) - (np.cumsum(blocks) - blocks)[query]
    place = ((np.cumsum(segments) - segments) * per + skipped)[query] + nth
    first, last = queries.first[query, None], queries.last[query, None]
    position = (first // BLOCK + nth[:, None]) * BLOCK + np.arange(BLOCK)
    # guard[dead-values]: 0 x NaN is NaN, so a weight of zero does not make an unseen value harmless; another that the
    # query sees stands in its place
    # mutant[dead-values/multiplied]:
    #   - columns = queries.pad[query, None] + np.clip(position, first, last)
    #   + columns = queries.pad[query, None] + position
    columns = queries.pad[query, None] + np.clip(position, first, last)
    dead = (position < first) | (position > last)
    return Portion(queries, per, joins_of(segments), int(segments.sum()) * per, place, query, columns, dead)


def attend_portion(q: F32, k_cache: Array, v_cache: Array, portion: Portion, forms: Forms) -> F32:
    """q [U, G, g, D], already scaled -> [U, G, g, D]."""
    groups, g, dim = q.shape[1:]
    some = np.empty((len(portion.place), groups, g, BLOCK), np.float32)
    _products(k_cache, widened(q, forms.lanes)[portion.query], portion, forms, some)
    # guard[dead-keys]: the unseen part of a block scores -inf, not 0: a zero key would still take weight
    # mutant[dead-keys/zero-scores]:
    #   - np.copyto(some, -np.inf, where=portion.dead[:, None, None])
    #   + np.copyto(some, 0.0, where=portion.dead[:, None, None])
    np.copyto(some, -np.inf, where=portion.dead[:, None, None])
    scores = np.full((portion.length, *some.shape[1:]), -np.inf, np.float32)
    scores[portion.place] = some
    maxima, sums = weigh(scores.reshape(-1, portion.per, groups * g, BLOCK))
    mixed = np.empty((*some.shape[:-1], dim), np.float32)
    _products(v_cache, widened(scores[portion.place], forms.lanes), portion, forms, mixed, turned=True)
    values = np.zeros((portion.length, *mixed.shape[1:]), np.float32)
    values[portion.place] = mixed
    line = fold(maxima, sums, values.reshape(-1, portion.per, groups * g, dim))
    return merge(line, portion.joins).reshape(q.shape)


def _products(cache: Array, columns: F32, portion: Portion, forms: Forms, out: F32, turned: bool = False) -> None:
    """Each block of the cache [64, D], or turned [D, 64], with the columns [E, G, K, R] that go with it: the first g of
    them into the rows of out [E, G, g, N]."""
    _, groups, length, dim = cache.shape
    flat, step = cache.reshape(-1, dim), max(1, AT_ONCE // (groups * BLOCK * dim))
    head = (portion.queries.row[portion.query, None] * groups + np.arange(groups)) * length
    for part in (slice(a, a + step) for a in range(0, len(out), step)):
        index = head[part, :, None] + portion.columns[part, None]
        taken = scratch("taken", (*index.shape, dim), flat.dtype)
        np.take(flat, index, axis=0, out=taken, mode="clip")  # mode: with "raise" it goes through a copy
        block = np.asarray(taken, np.float32)
        wide = scratch("wide", (*block.shape[:2], out.shape[-1], forms.lanes))
        forms.multiply(block.swapaxes(-1, -2) if turned else block, columns[part], wide)
        out[part] = wide[..., : out.shape[-2]].swapaxes(-1, -2)
