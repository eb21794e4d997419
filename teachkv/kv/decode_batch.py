"""The buffers of one built cohort: all layers, all rows, one append column. Only `RebuildBatchCache` uses it.

Letters: B rows, G KV heads, C columns, D head dim.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teachkv.kv.geometry import int_array, make_geometry
from teachkv.kv.memory import Memory, Move
from teachkv.kv.slots import SequenceRows, Slot
from teachkv.kv.spec import CacheSpec, ring_columns, round_up
from teachkv.kv.staging import copy_in
from teachkv.kv.view import Array, Geometry, IntArray


class DecodeBatch:
    """Rows whose slots share one length, copied side by side. `lead_pad` [B] is a field, not a channel.

    `ring_end[w]`: one past the last used column in layers with a ring of w. Rings are uniform, so one number serves.
    """

    def __init__(self, memory: Memory, spec: CacheSpec, ids: tuple[int, ...], rows: Sequence[SequenceRows]) -> None:
        self.memory, self.spec, self.ids = memory, spec, ids
        self.stored_len = rows[0].slots[0].length
        self.lead_pad = int_array([row.lead_pad for row in rows])
        self.steps = 0
        self.ring_end = {
            width: rows[0].slots[layers[0]].stored for width, layers in spec.kinds.items() if width is not None
        }
        self.layers = [self._built(layer, [row.slots[layer] for row in rows]) for layer in range(spec.layers)]

    def _built(self, layer: int, slots: Sequence[Slot]) -> tuple[Array, Array]:
        width = self.spec.rings[layer]
        columns = round_up(self.stored_len + 1, self.spec.maximum) if width is None else ring_columns(width)
        shape = (len(slots), self.spec.kv_heads, columns, self.spec.head_dim)
        k, v = self.memory.buffer(shape, self.spec.dtype), self.memory.buffer(shape, self.spec.dtype)
        copy_in(self.memory, slots, k, v)
        return k, v

    def live_lengths(self) -> IntArray:
        """[B] positions computed. Recomputed from the pad, never carried: it grows every step."""
        return int_array(self.stored_len - self.lead_pad)

    def has_columns(self, width: int) -> bool:
        return self.stored_len + width <= self.spec.maximum

    def reserve(self, width: int) -> bool:
        """Make room for `width` more columns in every layer. True if anything was moved or reallocated.

        Only the first statement can fail for want of memory; it changes nothing.
        """
        columns = round_up(self.stored_len + width, self.spec.maximum)
        wider = {
            layer: (self._widened(k, columns), self._widened(v, columns))
            for layer, (k, v) in enumerate(self.layers)
            if self.spec.rings[layer] is None and self.stored_len + width > k.shape[2]
        }
        full = {ring for ring, end in self.ring_end.items() if end + width > ring_columns(ring)}
        for layer, ring in enumerate(self.spec.rings):
            if ring in full:
                self._shift_ring(*self.layers[layer], ring)
            self.layers[layer] = wider.get(layer, self.layers[layer])
        self.ring_end |= {ring: ring for ring in full}
        return bool(wider or full)

    def _widened(self, old: Array, columns: int) -> Array:
        rows, heads, _, dim = old.shape
        new = self.memory.buffer((rows, heads, columns, dim), self.spec.dtype)
        self.memory.move(old, new, [Move(row, 0, row, 0, self.stored_len) for row in range(rows)])
        return new

    def _shift_ring(self, k: Array, v: Array, width: int) -> None:
        """The last w columns move to the front; what lies before them is outside every window to come."""
        end = self.ring_end[width]
        for buffer in (k, v):
            moves = [Move(row, end - width, row, 0, width) for row in range(len(self.ids))]
            self.memory.move(buffer, buffer, moves)
            for row in range(len(self.ids)):
                self.memory.kill(buffer, row, width, end)

    def geometry(self, kind: int | None, counts: IntArray) -> Geometry:
        """What attention may read in layers of a kind, with room for counts[b] new columns in row b."""
        row = np.arange(len(self.ids), dtype=np.int32)
        if kind is not None:
            end = np.full(len(self.ids), self.ring_end[kind], dtype=np.int32)
            return make_geometry(row, end - self.live_lengths(), end, counts)
        end = np.full(len(self.ids), self.stored_len, dtype=np.int32)
        # guard[geometry]: the pad stays true while the batch grows; a length taken when it was built is stale at once
        # origin: the seed document
        # mutant[geometry/stores-live-length]:
        #   - return make_geometry(row, self.lead_pad, end, counts)
        #   + return make_geometry(row, self.lead_pad + np.int32(self.steps), end, counts)
        return make_geometry(row, self.lead_pad, end, counts)

    def commit(self, counts: Sequence[int], kept: Sequence[int]) -> bool:
        """Row b keeps kept[b] of its counts[b] new columns. True if rows had to move to share an end again."""
        most = max(kept)
        lag = most - int_array(kept)
        end = self.stored_len + int_array(kept)
        for ring, (k, v) in zip(self.spec.rings, self.layers, strict=True):
            if ring is None:
                for buffer in (k, v):
                    self._commit_rows(buffer, lag, end, self.stored_len + max(counts))
        self.stored_len += most
        self.ring_end = {width: end + most for width, end in self.ring_end.items()}
        self.lead_pad = int_array(self.lead_pad + lag)
        self.steps += most
        return bool(lag.any())

    def _commit_rows(self, buffer: Array, lag: IntArray, end: IntArray, written: int) -> None:
        """Live runs that fell behind move right by their lag; refused columns and vacated ones die."""
        moves = [
            Move(row, int(pad), row, int(pad + by), int(stop - pad))
            for row, (pad, by, stop) in enumerate(zip(self.lead_pad, lag, end, strict=True))
            if by
        ]
        self.memory.move(buffer, buffer, moves)
        for row, (pad, by) in enumerate(zip(self.lead_pad, lag, strict=True)):
            self.memory.kill(buffer, row, int(pad), int(pad + by))
            self.memory.kill(buffer, row, int(end[row] + by), written)

    def handed(self, row: int, slots: Sequence[Slot], epoch: int) -> SequenceRows:
        """Row `row` as its sequence's storage: views into the batch, with the lead pad they begin with."""
        length, views = int(self.live_lengths()[row]), []
        for slot, ring, (k, v) in zip(slots, self.spec.rings, self.layers, strict=True):
            stop = self.stored_len if ring is None else self.ring_end[ring]
            views.append(slot.handed(k[row], v[row], stop, length))
        return SequenceRows(tuple(views), int(self.lead_pad[row]), epoch, borrowed=True)
