"""Staging of the incremental cache: one row per prompt being computed, column = position.

Letters: G KV heads, C columns, D head dim.
"""

from __future__ import annotations

from collections.abc import Sequence

from teachkv.kv.batch_cache import LiveRows
from teachkv.kv.geometry import int_array, make_geometry
from teachkv.kv.memory import Memory, Move
from teachkv.kv.row_buffers import RowBuffers, row_block
from teachkv.kv.seat import Seat
from teachkv.kv.spec import CacheSpec, round_up
from teachkv.kv.staging import StagedLayer, stage_layer, staged_geometry
from teachkv.kv.view import Geometry, LayerView
from teachkv.kv.window_slot import WindowSlot


class StagePool:
    """Rows for the full layers; ring layers of a staged sequence are WindowSlots, staged anew for each chunk."""

    def __init__(self, memory: Memory, spec: CacheSpec) -> None:
        self.memory, self.spec = memory, spec
        self.full = tuple(layer for layer, ring in enumerate(spec.rings) if ring is None)
        self.buffers = RowBuffers(memory, spec, self.full)

    def reserve(self, staged: Sequence[Seat], ends: dict[int, int], joining: Sequence[Seat]) -> None:
        """Rows for `joining`, and columns up to ends[i] for the i-th of staged + joining. One allocation at most."""
        everyone = [*staged, *joining]
        columns = round_up(max(ends.get(i, seat.end) for i, seat in enumerate(everyone)), self.spec.maximum)
        if len(everyone) > self.buffers.rows or columns > self.buffers.columns:
            columns = max(columns, self.buffers.columns)
            self._renew(staged, self.buffers.rows_for(len(everyone), columns), columns)
        for seat in joining:
            seat.row, seat.staged, seat.cohort = self.buffers.take(), True, None
            seat.ring_slots = seat.ring_slots or {
                layer: WindowSlot(self.memory, self.spec, ring) for layer, ring in enumerate(self.spec.rings) if ring
            }

    def trim(self, staged: Sequence[Seat]) -> None:
        """Cut the buffers to what `staged`, all seats of the pool, need now."""
        if staged:
            columns = round_up(max(seat.end for seat in staged), self.spec.maximum)
            self._renew(staged, row_block(len(staged)), columns)

    def _renew(self, staged: Sequence[Seat], rows: int, columns: int) -> None:
        made = self.buffers.prepare(rows, columns)
        moves = [Move(seat.row or 0, 0, new, 0, seat.end) for new, seat in enumerate(staged)]
        self.buffers.adopt(made, rows, columns, {None: moves})
        for new, seat in enumerate(staged):
            seat.row = new

    def release(self, seat: Seat) -> None:
        """Free the seat's row, and the buffers with the last one."""
        if seat.row is not None:
            self.buffers.give(seat.row)
        seat.row, seat.ring_slots = None, {}
        if not self.buffers.used:
            self.buffers.clear()

    def stage_rings(self, seats: Sequence[Seat], counts: Sequence[int]) -> dict[int, StagedLayer]:
        """Per ring layer, the kept columns of each seat with room for its chunk behind them."""
        rings = [layer for layer, ring in enumerate(self.spec.rings) if ring is not None]
        return {
            layer: stage_layer(self.memory, self.spec, [seat.ring_slots[layer] for seat in seats], counts)
            for layer in rings
        }

    def views(
        self, seats: Sequence[Seat], counts: Sequence[int], rings: dict[int, StagedLayer]
    ) -> tuple[LayerView, ...]:
        """What attention reads; layers of a kind share their geometry."""
        shared = {kind: self._geometry(layers[0], seats, counts) for kind, layers in self.spec.kinds.items()}
        views = []
        for layer, ring in enumerate(self.spec.rings):
            if ring is None:
                views.append(LayerView(*self.buffers.arrays[layer], shared[None]))
            else:
                views.append(rings[layer].view(shared[ring]))
        return tuple(views)

    def _geometry(self, layer: int, seats: Sequence[Seat], counts: Sequence[int]) -> Geometry:
        if self.spec.rings[layer] is not None:
            return staged_geometry([seat.ring_slots[layer] for seat in seats], counts)
        row, end = int_array([seat.row or 0 for seat in seats]), int_array([seat.end for seat in seats])
        return make_geometry(row, int_array([seat.lead_pad for seat in seats]), end, int_array(counts))

    def commit(
        self, seats: Sequence[Seat], counts: Sequence[int], kept: Sequence[int], rings: dict[int, StagedLayer]
    ) -> None:
        """Row b keeps kept[b] of the counts[b] new columns. Only the first statement can run out of memory."""
        extended = [
            {layer: seat.ring_slots[layer].extended(*staged.new_columns(b, kept[b])) for layer, staged in rings.items()}
            for b, seat in enumerate(seats)
        ]
        for b, seat in enumerate(seats):
            seat.ring_slots.update(extended[b])
            self.buffers.kill(None, seat.row or 0, seat.end + kept[b], seat.end + counts[b])
            seat.own_end += kept[b]

    def load(self, seat: Seat, rows: LiveRows) -> None:
        """Positions 0 .. length-1 of an empty seat that has a row."""
        for layer, held in enumerate(rows.layers):
            if layer in seat.ring_slots:
                copies = self.memory.xp.array(held.k), self.memory.xp.array(held.v)
                seat.ring_slots[layer] = seat.ring_slots[layer].handed(*copies, held.k.shape[1], rows.length)
            else:
                for buffer, source in zip(self.buffers.arrays[layer], (held.k, held.v), strict=True):
                    self.memory.move(source[None], buffer, [Move(0, 0, seat.row or 0, 0, rows.length)])
        seat.own_end = rows.length
