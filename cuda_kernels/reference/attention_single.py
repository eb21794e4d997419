"""Attention query by query, many queries side by side: decode, and prefill where tiles are not stable.

Letters: U queries, G KV heads, H query heads, r = rows of one product (H / G, or padded), L segments of all queries,
N blocks of a segment, D head dim. The blocks of all queries lie in one line, query after query, in whole segments:

    query       0          1     2
    segment     0    1     2     3    4    5
    block       0123 4567  89..  .... .... ....

So a long query costs its own length and not that of its neighbours. Every product has the same shape, [r, D] @ [D, 64]
or [r, 64] @ [64, D], so that nothing can depend on the company.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK, SEGMENT
from cuda_kernels.common.types import F32, Array
from cuda_kernels.reference.attention_forms import Multiply
from cuda_kernels.reference.softmax import PER_SEGMENT, Joins, fold, joins_of, merge, weigh
from cuda_kernels.reference.spans import Edge, Index, Inner, Queries, edges_and_inner, side_by_side
from cuda_kernels.reference.threads import pieces_at_once

MOST_SCORES = 1 << 20  # floats of scores of one portion, unless a single query has more
# Blocks of one KV head for each thread. Below, threads wait for the interpreter: attention of 32 rows, 275 tokens each,
# takes about 73 ms a step on one thread and 75 on two; of rows of 16 .. 534 tokens 75 and 94.
WORTH_THREADS = 1000


@dataclass(frozen=True, eq=False)
class Portion:
    """Queries that one thread computes, and how their blocks lie in the line and in the cache."""

    queries: Queries
    per: int  # blocks of a segment
    blocks: int  # of the line
    joins: Joins
    edges: list[Edge]
    inner: list[Inner]
    edge_query: Index  # [E]
    edge_block: Index  # [E] in the line
    edge_dead: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]  # [E, 64]


def portions_of(queries: Queries, groups: int, lanes: int) -> list[Portion]:
    """Successive queries in portions of about equal work: one per thread where that pays, more where there would be
    too many scores. lanes: rows of one product."""
    if not len(queries.token):
        return []
    done = np.cumsum(queries.segments)
    total, scores = int(done[-1]), groups * lanes * SEGMENT  # per segment
    blocks = groups * int((queries.last // BLOCK - queries.first // BLOCK + 1).sum())
    count = max(1, min(pieces_at_once(), blocks // WORTH_THREADS), -(-total * scores // MOST_SCORES))
    which = (done - 1) * count // total
    return [_portion(queries.pick(np.flatnonzero(which == i))) for i in np.unique(which)]


def _portion(queries: Queries) -> Portion:
    counts = queries.segments
    used = queries.last // BLOCK - queries.first // SEGMENT * PER_SEGMENT + 1
    per = int(used.max()) if int(counts.max()) == 1 else PER_SEGMENT  # a lone segment leaves out its last, empty blocks
    edges, inner = (side_by_side(pieces) for pieces in edges_and_inner(queries, counts * per))
    each = [(*e.own.after(i), e.block, e.lo, e.hi) for e in edges for i in range(e.rows)]
    query, begin, block, lo, hi = np.array(each, np.intp).reshape(-1, 5).T
    dead = (np.arange(BLOCK) < lo[:, None]) | (np.arange(BLOCK) >= hi[:, None])
    return Portion(queries, per, int(counts.sum()) * per, joins_of(counts), edges, inner, query, begin + block, dead)


def attend_portion(q: F32, k_cache: Array, v_cache: Array, portion: Portion, multiply: Multiply) -> F32:
    """q [U, G, r, D], already scaled -> [U, G, r, D]. multiply: see attention_forms."""
    q = q.swapaxes(0, 1)
    groups, _, r, dim = q.shape
    scores = np.full((groups, portion.blocks, r, BLOCK), -np.inf, np.float32)
    for run in portion.inner:
        mine = q[:, run.own.query : run.own.query + run.rows, None]
        multiply(mine, _whole_blocks(k_cache, run), run.of(scores))
    if portion.edges:
        some = np.empty((groups, len(portion.edge_query), r, BLOCK), np.float32)
        multiply(q[:, portion.edge_query], _edge_blocks(k_cache, portion), some)
        # guard[dead-keys]: the unseen part of a block scores -inf, not 0: a zero key would still take weight
        # mutant[dead-keys/zero-scores]:
        #   - np.copyto(some, -np.inf, where=portion.edge_dead[:, None])
        #   + np.copyto(some, 0.0, where=portion.edge_dead[:, None])
        np.copyto(some, -np.inf, where=portion.edge_dead[:, None])
        scores[:, portion.edge_block] = some
    shaped = scores.reshape(groups, -1, portion.per, r, BLOCK)
    maxima, sums = weigh(shaped)
    values = np.zeros((groups, portion.blocks, r, dim), np.float32)
    for run in portion.inner:
        multiply(run.of(scores), _whole_blocks(v_cache, run).swapaxes(-1, -2), run.of(values))
    if portion.edges:
        some = np.empty((groups, len(portion.edge_query), r, dim), np.float32)
        multiply(scores[:, portion.edge_block], _edge_blocks(v_cache, portion).swapaxes(-1, -2), some)
        values[:, portion.edge_block] = some
    m, total, acc = fold(maxima, sums, values.reshape(*shaped.shape[:-1], dim))
    return merge(m, total, acc, portion.joins).swapaxes(0, 1)


def _whole_blocks(cache: Array, run: Inner) -> F32:
    """A view [G, rows, n, 64, D] of blocks that lie whole in the cache."""
    groups, _, dim = cache.shape[1:]
    span = cache[run.row : run.row + run.rows, :, run.column : run.column + run.count * BLOCK]
    return np.asarray(span.reshape(run.rows, groups, run.count, BLOCK, dim), np.float32).swapaxes(0, 1)


def _edge_blocks(cache: Array, portion: Portion) -> F32:
    """Copies [G, E, 64, D] of blocks seen in part: what is not seen is zero here, whatever the cache holds there."""
    groups, _, dim = cache.shape[1:]
    # guard[dead-values]: 0 x NaN is NaN, so a weight of zero does not make an unseen value harmless
    # mutant[dead-values/multiplied]:
    #   - blocks = np.zeros((groups, len(portion.edge_query), BLOCK, dim), np.float32)
    #   + blocks = np.full((groups, len(portion.edge_query), BLOCK, dim), np.nan, np.float32)
    blocks = np.zeros((groups, len(portion.edge_query), BLOCK, dim), np.float32)
    at = 0
    for edge in portion.edges:
        live = cache[edge.row : edge.row + edge.rows, :, edge.column : edge.column + edge.hi - edge.lo]
        blocks[:, at : at + edge.rows, edge.lo : edge.hi] = live.swapaxes(0, 1)
        at += edge.rows
    return blocks
