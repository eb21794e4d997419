"""Attention query by query, all queries side by side: decode, and prefill where tiles are not stable.

Letters: U queries, G KV heads, H query heads, r = rows of one product (H / G, or padded), S segments, D head dim.
Every product has the same shape, [r, D] @ [D, 64] or [r, 64] @ [64, D], so that nothing can depend on the company.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cuda_kernels.common.attention_spec import BLOCK
from cuda_kernels.common.types import F32, Array
from cuda_kernels.reference.attention_forms import Multiply
from cuda_kernels.reference.softmax import fold_and_merge, laid_out, weigh
from cuda_kernels.reference.spans import Edge, Index, Inner, Queries, edges_and_inner, side_by_side
from cuda_kernels.reference.threads import spread

MOST_SCORES = 1 << 20  # floats of scores held at once
JOIN_UP_TO = 40  # blocks in a call; beyond, runs stay apart so that threads can share them
WORTH_THREADS = 100  # blocks of one KV head; below, waking a thread costs more than it saves


@dataclass(frozen=True, eq=False)
class Batch:
    """Queries that are computed together, and how their blocks lie in the cache."""

    queries: Queries
    segments: int
    per: int  # blocks of a segment
    edges: list[Edge]
    inner: list[Inner]
    edge_query: Index  # [E]
    edge_block: Index  # [E]
    edge_dead: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]  # [E, 64]


def batches_of(queries: Queries, scores_per_segment: int) -> list[Batch]:
    """All queries at once if their padded scores are few, else those of equal width together, in bounded portions."""
    if not len(queries.token):
        return []
    spans = queries.segments
    if len(spans) * int(spans.max()) * scores_per_segment <= MOST_SCORES:
        return [_batch(queries, int(spans.max()))]
    found = []
    for width in np.unique(spans):
        which = np.flatnonzero(spans == width)
        step = max(1, MOST_SCORES // (int(width) * scores_per_segment))
        found += [_batch(queries.pick(which[i : i + step]), int(width)) for i in range(0, len(which), step)]
    return found


def _batch(queries: Queries, segments: int) -> Batch:
    edges, inner = edges_and_inner(queries)
    last = max([e.block for e in edges] + [run.block + run.count - 1 for run in inner])
    edges = side_by_side(edges)
    if sum(run.count for run in inner) < JOIN_UP_TO:
        inner = side_by_side(inner)
    each = [(e.query + i, e.block, e.lo, e.hi) for e in edges for i in range(e.rows)]
    query, block, lo, hi = np.array(each, np.intp).reshape(-1, 4).T
    where = np.arange(BLOCK)
    return Batch(
        queries,
        *laid_out(segments, last + 1),
        edges,
        inner,
        query,
        block,
        (where < lo[:, None]) | (where >= hi[:, None]),
    )


def attend_batch(q: F32, k_cache: Array, v_cache: Array, batch: Batch, multiply: Multiply) -> F32:
    """q [U, G, r, D], already scaled -> [U, G, r, D]. multiply: see attention_forms."""
    rows, groups, r, dim = q.shape
    blocks = batch.segments * batch.per
    scores = np.full((rows, groups, blocks, r, BLOCK), -np.inf, np.float32)
    edge_k, edge_v = _edge_blocks(k_cache, batch.edges), _edge_blocks(v_cache, batch.edges)

    def score(run: Inner) -> None:
        keys = _whole_blocks(k_cache, run)
        mine = slice(run.query, run.query + run.rows)
        out = scores[mine, :, run.block : run.block + run.count]
        multiply(q[mine, :, None], keys, out)

    _each(batch.inner, groups, score)
    if batch.edges:
        some = np.empty((len(edge_k), groups, r, BLOCK), np.float32)
        multiply(q[batch.edge_query], edge_k, some)
        # guard[dead-keys]: the unseen part of a block scores -inf, not 0: a zero key would still take weight
        # mutant[dead-keys/zero-scores]:
        #   - np.copyto(some, -np.inf, where=batch.edge_dead[:, None, None])
        #   + np.copyto(some, 0.0, where=batch.edge_dead[:, None, None])
        np.copyto(some, -np.inf, where=batch.edge_dead[:, None, None])
        scores[batch.edge_query, :, batch.edge_block] = some
    shaped = scores.reshape(rows, groups, batch.segments, batch.per, r, BLOCK)
    maxima, sums = weigh(shaped)
    values = np.zeros((rows, groups, blocks, r, dim), np.float32)

    def mix(run: Inner) -> None:
        mine, span = slice(run.query, run.query + run.rows), slice(run.block, run.block + run.count)
        multiply(scores[mine, :, span], _whole_blocks(v_cache, run).swapaxes(-1, -2), values[mine, :, span])

    _each(batch.inner, groups, mix)
    if batch.edges:
        some = np.empty((len(edge_v), groups, r, dim), np.float32)
        multiply(scores[batch.edge_query, :, batch.edge_block], edge_v.swapaxes(-1, -2), some)
        values[batch.edge_query, :, batch.edge_block] = some
    return fold_and_merge(maxima, sums, values.reshape(*shaped.shape[:-1], dim))


def _each(runs: list[Inner], groups: int, job: Callable[[Inner], None]) -> None:
    """job(run) for every run, over the threads where there is enough to do."""

    def some(start: int, stop: int) -> None:
        for run in runs[start:stop]:
            job(run)

    if len(runs) > 1 and groups * sum(run.count for run in runs) >= WORTH_THREADS:
        spread(len(runs), some)
    else:
        some(0, len(runs))


def _whole_blocks(cache: Array, run: Inner) -> F32:
    """A view [rows, G, n, 64, D] of blocks that lie whole in the cache."""
    groups, _, dim = cache.shape[1:]
    span = cache[run.row : run.row + run.rows, :, run.column : run.column + run.count * BLOCK]
    return np.asarray(span.reshape(run.rows, groups, run.count, BLOCK, dim), np.float32)


def _edge_blocks(cache: Array, edges: list[Edge]) -> F32:
    """Copies [E, G, 64, D] of blocks seen in part: what is not seen is zero here, whatever the cache holds there."""
    groups, _, dim = cache.shape[1:]
    count = sum(edge.rows for edge in edges)
    # guard[dead-values]: 0 x NaN is NaN, so a weight of zero does not make an unseen value harmless
    # mutant[dead-values/multiplied]:
    #   - blocks = np.zeros((count, groups, BLOCK, dim), np.float32)
    #   + blocks = np.full((count, groups, BLOCK, dim), np.nan, np.float32)
    blocks = np.zeros((count, groups, BLOCK, dim), np.float32)
    at = 0
    for edge in edges:
        live = cache[edge.row : edge.row + edge.rows, :, edge.column : edge.column + edge.hi - edge.lo]
        blocks[at : at + edge.rows, :, edge.lo : edge.hi] = live
        at += edge.rows
    return blocks
