"""What each query sees, as arrays: computed once per step and kind of layer, not once per layer.

Letters: B rows of the call, T tokens, U queries that see something. The blocks of all queries lie in one line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cuda_kernels.common.attention_spec import BLOCK, SEGMENT
from cuda_kernels.common.types import F32, IntArray

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries one by one. All fields [U].

    token  index in the packed token axis      row    buffer row
    pad    column of position 0                first  oldest position seen        last  newest, the query's own
    """

    token: Index
    row: Index
    pad: Index
    first: Index
    last: Index

    def pick(self, which: Index) -> Queries:
        return Queries(self.token[which], self.row[which], self.pad[which], self.first[which], self.last[which])

    @property
    def segments(self) -> Index:
        """How many segments each query's span touches."""
        return self.last // SEGMENT - self.first // SEGMENT + 1


class Own(NamedTuple):
    """The place of a query: its blocks in the line are begin .. begin + width."""

    query: int
    begin: int
    width: int

    def layout(self, row: int) -> tuple[int, int, int]:
        """Equal for neighbours in successive buffer rows with as many blocks."""
        # guard[equal-neighbours]: one view of the line holds several queries only if each has as many blocks
        # mutant[equal-neighbours/any-width]:
        #   - return self.query - row, self.begin - self.query * self.width, self.width
        #   + return self.query - row, 0, 0
        return self.query - row, self.begin - self.query * self.width, self.width

    def after(self, count: int) -> tuple[int, int]:
        """(query, begin) of the neighbour `count` further on."""
        return self.query + count, self.begin + count * self.width


@dataclass(frozen=True, eq=False)
class Edge:
    """A block of which a query sees only positions lo .. hi: its unseen rest must not be read."""

    own: Own
    block: int  # counted from the first block of the query's first segment
    row: int
    column: int  # where position lo lies
    lo: int
    hi: int
    rows: int = 1  # so many queries and buffer rows in succession share this layout

    @property
    def layout(self) -> tuple[int, ...]:
        return *self.own.layout(self.row), self.block, self.column, self.lo, self.hi


@dataclass(frozen=True, eq=False)
class Inner:
    """A run of blocks that a query sees whole, in place in the cache."""

    own: Own
    block: int
    row: int
    column: int
    count: int
    rows: int = 1

    @property
    def layout(self) -> tuple[int, ...]:
        return *self.own.layout(self.row), self.block, self.column, self.count

    def of(self, line: F32) -> F32:
        """line [G, blocks, r, X] -> a view [G, rows, n, r, X] of this run."""
        groups, _, r, last = line.shape
        begin, width = self.own.begin, self.own.width
        mine = line[:, begin : begin + self.rows * width].reshape(groups, self.rows, width, r, last)
        return mine[:, :, self.block : self.block + self.count]


def queries_of(
    cu_seqlens: IntArray, row: IntArray, end: IntArray, lead_pad: IntArray | None, window: int | None
) -> Queries:
    """All queries of live rows that see at least one column. Padding rows (-1) have none."""
    counts = np.diff(cu_seqlens).astype(np.intp)
    owner = np.repeat(np.arange(len(row)), counts)
    token = np.arange(int(cu_seqlens[-1]) if len(cu_seqlens) else 0, dtype=np.intp)
    pads = np.zeros(len(row), np.intp) if lead_pad is None else lead_pad.astype(np.intp)
    # The query's column counts from the right end: its n tokens are the last n columns before `end`.
    # guard[bottom-right]: with a cached prefix, query i of n lies at end - n + i, never at i
    # mutant[bottom-right/top-left]:
    #   - column = end.astype(np.intp)[owner] - (cu_seqlens.astype(np.intp)[1:][owner] - token)
    #   + column = token - cu_seqlens.astype(np.intp)[:-1][owner]
    column = end.astype(np.intp)[owner] - (cu_seqlens.astype(np.intp)[1:][owner] - token)
    oldest = np.maximum(pads[owner], 0)
    if window is not None:
        # guard[window-keys]: exactly `window` keys, the query's own among them
        # mutant[window-keys/one-too-wide]:
        #   - oldest = np.maximum(oldest, column + 1 - window)
        #   + oldest = np.maximum(oldest, column - window)
        # mutant[window-keys/one-too-narrow]:
        #   - oldest = np.maximum(oldest, column + 1 - window)
        #   + oldest = np.maximum(oldest, column + 2 - window)
        oldest = np.maximum(oldest, column + 1 - window)
    # guard[empty-query]: a query that sees nothing must be left out, so that its output stays zero
    # mutant[empty-query/removed]:
    #   - live = (row[owner] >= 0) & (oldest <= column)
    #   + live = row[owner] >= 0
    live = (row[owner] >= 0) & (oldest <= column)
    pad = pads[owner]
    # guard[position-blocks]: blocks are cut at positions; cut at columns, every lead pad gives other bits
    # mutant[position-blocks/columns]:
    #   - found = Queries(token, row.astype(np.intp)[owner], pad, oldest - pad, column - pad)
    #   + found = Queries(token, row.astype(np.intp)[owner], pad * 0, oldest, column)
    found = Queries(token, row.astype(np.intp)[owner], pad, oldest - pad, column - pad)
    return found.pick(np.flatnonzero(live))


Piece = TypeVar("Piece", Edge, Inner)


def side_by_side(pieces: list[Piece]) -> list[Piece]:
    """Join pieces of equal layout that lie in successive rows, as those of a cohort of equal lengths do."""
    joined: list[Piece] = []
    latest: dict[tuple[int, ...], int] = {}
    for piece in pieces:
        at = latest.get(piece.layout)
        if at is not None and joined[at].own.query + joined[at].rows == piece.own.query:
            joined[at] = replace(joined[at], rows=joined[at].rows + 1)
        else:
            latest[piece.layout] = len(joined)
            joined.append(piece)
    return joined


def edges_and_inner(queries: Queries, widths: Index) -> tuple[list[Edge], list[Inner]]:
    """Cut each query's span first .. last at block boundaries: at most two edges and one run of whole blocks.
    widths [U]: blocks of each query in the line."""
    edges: list[Edge] = []
    inner: list[Inner] = []
    fields = zip(queries.row.tolist(), queries.pad.tolist(), queries.first.tolist(), queries.last.tolist(), strict=True)
    begins = (np.cumsum(widths) - widths).tolist()
    for u, (row, pad, first, last) in enumerate(fields):
        own = Own(u, begins[u], int(widths[u]))
        base = first // SEGMENT * (SEGMENT // BLOCK)
        start, stop = first, last + 1
        head = min(stop, -(-start // BLOCK) * BLOCK)
        if start < head:
            block = start // BLOCK
            edges.append(Edge(own, block - base, row, pad + start, start - block * BLOCK, head - block * BLOCK))
            start = head
        tail = max(start, stop // BLOCK * BLOCK)
        if start < tail:
            inner.append(Inner(own, start // BLOCK - base, row, pad + start, (tail - start) // BLOCK))
        if tail < stop:
            edges.append(Edge(own, tail // BLOCK - base, row, pad + tail, 0, stop - tail))
    return edges, inner
