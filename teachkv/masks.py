"""The masker: what each query may see, said so that no backend can lose it.

    lead_pad = 3, window = 4, three queries at columns 5, 6, 7:

    column     0 1 2 3 4 5 6 7
    query 5    - - - x x x . .       x  seen: max(lead_pad, 0, c + 1 - w) <= j <= c
    query 6    - - - x x x x .       -  dead prefix: its zero keys would score 0 and take softmax weight
    query 7    - - - - x x x x       .  not yet written

Three answers, three types: a mask that must be honoured cannot be mistaken for one that may be left out. There are two
entry points, and which one a model reaches depends on its config. The seed document wired the dead prefix into one of
them; 79 of 512 tokens were lost with no error. So every return of both carries the pad.

Letters: B rows, q most query tokens of a row, k columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from teachkv.errors import GeometryError
from teachkv.kv.view import Array, Geometry, IntArray


@dataclass(frozen=True)
class NoMask:
    """One query token per row, every column up to its own is live and inside the window."""


@dataclass(frozen=True, eq=False)
class CausalByKernel:
    """The kernel applies causality, the dead prefix ([B], None = no dead columns) and the window (None = infinite)."""

    lead_pad: IntArray | None
    window: int | None


@dataclass(frozen=True, eq=False)
class ExplicitBias:
    """array [B, 1, q, k] float32, added to scores: 0 = seen, -inf = unseen. Query i of a row is its i-th new token."""

    array: Array


Mask: TypeAlias = NoMask | CausalByKernel | ExplicitBias


class Masker:
    """Both entry points. `cu_seqlens` [B+1] bounds each row's query tokens; rows with row index -1 are padding."""

    @staticmethod
    def causal(geometry: Geometry, cu_seqlens: IntArray) -> Mask:
        """For a layer without window. Raises GeometryError for an occupied row with no live column for a query."""
        if _most_queries(geometry, cu_seqlens) == 1:
            # guard[masker]: one token sees all columns before it, and in a ragged batch some of those are dead
            # origin: the seed document
            # mutant[masker/none-at-one-query]:
            #   - return NoMask() if geometry.lead_pad is None else CausalByKernel(geometry.lead_pad, None)
            #   + return NoMask()
            return NoMask() if geometry.lead_pad is None else CausalByKernel(geometry.lead_pad, None)
        # guard[masker-causal]: several tokens per row (speculation) meet the dead prefix too
        # origin: the seed document
        # mutant[masker-causal/drops-lead-pad]:
        #   - return CausalByKernel(geometry.lead_pad, None)
        #   + return CausalByKernel(None, None)
        return CausalByKernel(geometry.lead_pad, None)

    @staticmethod
    def sliding_window_causal(geometry: Geometry, cu_seqlens: IntArray, window: int | None) -> Mask:
        """For a layer with a window of `window` keys, the query's own among them; None = no window after all."""
        if window is None:
            return Masker.causal(geometry, cu_seqlens)
        _most_queries(geometry, cu_seqlens)
        # guard[window]: exactly w keys, the query's own included; at w + 1 columns the first one is outside
        # origin: mlx-lm#390, transformers#37574
        # mutant[window/one-too-wide]:
        #   - if window >= _context(geometry):
        #   + if window + 1 >= _context(geometry):
        if window >= _context(geometry):
            return Masker.causal(geometry, cu_seqlens)
        # guard[masker-window]: the door the seed document missed; the window alone does not hide the dead prefix
        # origin: the seed document: 433 of 512 tokens
        # mutant[masker-window/drops-lead-pad]:
        #   - return CausalByKernel(geometry.lead_pad, window)
        #   + return CausalByKernel(None, window)
        # mutant[masker-window/keyword]: decoy
        #   - return CausalByKernel(geometry.lead_pad, window)
        #   + return CausalByKernel(window=window, lead_pad=geometry.lead_pad)
        return CausalByKernel(geometry.lead_pad, window)

    @staticmethod
    def as_bias(mask: NoMask | CausalByKernel, geometry: Geometry, cu_seqlens: IntArray) -> ExplicitBias:
        """The explicit twin of a kernel mask: same visible columns, as [B, 1, q, k]. Unused query rows are all -inf."""
        lead_pad, window = (mask.lead_pad, mask.window) if isinstance(mask, CausalByKernel) else (None, None)
        counts = np.diff(cu_seqlens)
        queries = np.arange(int(counts.max()))[None, :, None]
        columns = np.arange(_context(geometry))[None, None, :]
        own = (geometry.end - counts)[:, None, None] + queries
        first = np.zeros_like(own) if lead_pad is None else np.maximum(lead_pad, 0)[:, None, None]
        # guard[as-bias]: the twin shows the same keys as the kernels, or comparing them proves nothing
        # mutant[as-bias/one-too-wide]:
        #   - first = first if window is None else np.maximum(first, own + 1 - window)
        #   + first = first if window is None else np.maximum(first, own - window)
        first = first if window is None else np.maximum(first, own + 1 - window)
        occupied = (geometry.row >= 0)[:, None, None] & (queries < counts[:, None, None])
        seen = occupied & (first <= columns) & (columns <= own)
        return ExplicitBias(np.where(seen, np.float32(0), np.float32(-np.inf))[:, None])


def _context(geometry: Geometry) -> int:
    """Columns that the longest row spans, its dead prefix included."""
    return int(geometry.end.max())


def _most_queries(geometry: Geometry, cu_seqlens: IntArray) -> int:
    """The most query tokens of any row. Refuses rows whose first query would see nothing, or another row count."""
    counts = np.diff(cu_seqlens)
    rows = len(geometry.row)
    pads = np.zeros(rows, dtype=np.int32) if geometry.lead_pad is None else geometry.lead_pad
    if not len(counts) == len(geometry.end) == len(pads) == rows or rows == 0:
        raise GeometryError(f"{rows} rows with {len(counts)} counts, {len(pads)} pads and {len(geometry.end)} ends")
    empty = np.flatnonzero((geometry.row >= 0) & (geometry.end - pads < counts))
    # guard[dead-row]: the parent took an underflow here for "no ragged mask", and the row attended to everything
    # origin: the parent engine, ragged channel
    # mutant[dead-row/removed]:
    #   - if len(empty):
    #   + if False:
    if len(empty):
        b = int(empty[0])
        live = int(geometry.end[b] - pads[b])
        raise GeometryError(f"row {b} has {live} live columns for {counts[b]} queries, lead pad {pads[b]}")
    return int(counts.max())
