"""What each query sees, as arrays: computed once per step and kind of layer, not once per layer.

Letters: B rows of the call, T tokens, U queries that see something.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cuda_kernels.common.attention_spec import BLOCK, SEGMENT
from cuda_kernels.common.types import IntArray

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

    @property
    def blocks(self) -> Index:
        """How many blocks each query's span touches."""
        return self.last // BLOCK - self.first // BLOCK + 1


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
