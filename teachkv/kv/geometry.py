"""The records that attention reads, made from three facts per row: buffer row, lead pad, end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teachkv.kv.view import Geometry, IntArray


def int_array(values: Sequence[int] | IntArray) -> IntArray:
    return np.asarray(values, dtype=np.int32)


def runs(first: IntArray, counts: IntArray) -> IntArray:
    """[T]: first[b], first[b]+1, ... counts[b] times, for each row in turn. Columns and positions are both made so."""
    if (counts == 1).all():  # every plain decode step
        return np.array(first, dtype=np.int32)
    offsets = np.arange(int(counts.sum()), dtype=np.int32) - np.repeat(np.cumsum(counts) - counts, counts)
    return int_array(np.repeat(first, counts) + offsets)


def make_geometry(row: IntArray, lead_pad: IntArray, end: IntArray, counts: IntArray) -> Geometry:
    """Geometry of a part whose row b writes counts[b] columns from `end[b]` on. All arguments [B]."""
    # guard[inert]: a cohort of equal lengths publishes nothing, and all that ragged rows need stays untouched
    # origin: the seed document
    # mutant[inert/publishes-when-uniform]:
    #   - published = int_array(lead_pad) if lead_pad.any() else None
    #   + published = int_array(lead_pad)
    # mutant[inert/counts-nonzero]: decoy
    #   - published = int_array(lead_pad) if lead_pad.any() else None
    #   + published = int_array(lead_pad) if np.count_nonzero(lead_pad) else None
    published = int_array(lead_pad) if lead_pad.any() else None
    return Geometry(int_array(row), published, int_array(end + counts), runs(end, counts))
