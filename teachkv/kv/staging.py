"""Staging: where prompts are computed. Column = position, no lead pad, each row its own end.

    row 0   k k k k k n n n        five positions known, three new ones: end = 8
    row 1   n n . . . . . .        a fresh prompt of two: end = 2

A ring layer shows its kept columns first, then the chunk, and says by a negative lead pad that column 0 holds a later
position: kept 5 6 7 8 of nine seen, lead pad -5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from teachkv.kv.geometry import int_array, make_geometry
from teachkv.kv.memory import Memory, Move
from teachkv.kv.slots import Slot
from teachkv.kv.spec import CacheSpec
from teachkv.kv.view import Array, Geometry, LayerView
from teachkv.kv.window_slot import WindowSlot


@dataclass(frozen=True)
class StagedLayer:
    """k, v [B, G, C, D] of one layer while a prompt chunk is computed; row b held `stored[b]` columns before."""

    k: Array
    v: Array
    stored: tuple[int, ...]

    def view(self, geometry: Geometry) -> LayerView:
        return LayerView(self.k, self.v, geometry)

    def new_columns(self, row: int, kept: int) -> tuple[Array, Array]:
        """k, v [G, kept, D] that the model has just written."""
        start = self.stored[row]
        return self.k[row, :, start : start + kept], self.v[row, :, start : start + kept]


def stage_layer(memory: Memory, spec: CacheSpec, slots: Sequence[Slot], counts: Sequence[int]) -> StagedLayer:
    """A buffer with each slot's columns in front and room for counts[b] more behind them. Slots are not changed."""
    stored = tuple(slot.stored for slot in slots)
    columns = max(held + count for held, count in zip(stored, counts, strict=True))
    shape = (len(slots), spec.kv_heads, columns, spec.head_dim)
    staged = StagedLayer(memory.buffer(shape, spec.dtype), memory.buffer(shape, spec.dtype), stored)
    copy_in(memory, slots, staged.k, staged.v)
    return staged


def copy_in(memory: Memory, slots: Sequence[Slot], k: Array, v: Array) -> None:
    """The stored columns of slot b become columns 0.. of row b of k, v [B, G, C, D]."""
    for row, slot in enumerate(slots):
        if slot.k is not None and slot.v is not None:
            start = slot.start if isinstance(slot, WindowSlot) else 0
            move = Move(0, start, row, 0, slot.stored)
            memory.move(slot.k[None], k, [move])
            memory.move(slot.v[None], v, [move])


def staged_geometry(slots: Sequence[Slot], counts: Sequence[int]) -> Geometry:
    """Geometry of a staged layer: one line per slot, position = column - lead_pad in rings too."""
    stored = int_array([slot.stored for slot in slots])
    lead_pad = stored - int_array([slot.length for slot in slots])
    return make_geometry(np.arange(len(slots), dtype=np.int32), lead_pad, stored, int_array(counts))
