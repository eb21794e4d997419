"""The batch of the incremental cache: rows at their columns, and the moves that change them.

Letters: B rows of the cohort, R buffer rows, C columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teachkv.errors import GeometryError
from teachkv.kv.columns import ColumnPlan
from teachkv.kv.geometry import int_array, make_geometry
from teachkv.kv.memory import Memory, Move
from teachkv.kv.row_buffers import Arrays, RowBuffers, row_block
from teachkv.kv.seat import Cohort, Lines, Seat
from teachkv.kv.spec import CacheSpec, ring_columns
from teachkv.kv.stage_pool import StagePool
from teachkv.kv.view import Geometry, IntArray, LayerView


class BatchRows:
    """All layers of the seated sequences. `preallocated` = (rows, columns) is made once and kept: no buffer moves."""

    def __init__(self, memory: Memory, spec: CacheSpec, preallocated: tuple[int, int] | None) -> None:
        self.memory, self.spec, self.preallocated = memory, spec, preallocated
        self.buffers = RowBuffers(memory, spec, range(spec.layers), *(preallocated or (0, 0)))
        self.cohort = Cohort()
        self.rings = [kind for kind in spec.kinds if kind is not None]

    def lacks_rows(self, joining: int) -> bool:
        return joining > len(self.buffers.free)

    def form(
        self,
        members: dict[int, Seat],
        seated: Sequence[Seat],
        plan: ColumnPlan,
        pool: StagePool,
        epoch: int,
        *,
        renew: bool = False,
    ) -> bool:
        """Make `members` the cohort. True if any row was moved; those carry the new `epoch`.

        The buffers are made anew if they are too small, or if told to `renew`. Only that can fail for want of memory,
        and it comes before any change.
        """
        rows, columns = self._size(members, seated, plan, renew)
        made = self.buffers.prepare(rows, columns) if renew or (rows, columns) != self._held() else None
        for seat in seated:
            if seat.cohort is not None:
                seat.park()
        if made is not None:
            self._replace(made, rows, columns, members, seated, plan.stored_len)
        moved = [seat for seat in members.values() if seat.staged or seat.lead_pad != plan.stored_len - seat.length]
        self._shift([seat for seat in moved if not seat.staged], plan.stored_len)
        self._seat([seat for seat in moved if seat.staged], plan.stored_len, pool)
        for seat in seated if made is not None else moved:
            seat.epoch = epoch
        self.cohort.stored_len, self.cohort.members = plan.stored_len, dict(members)
        for seat in members.values():
            seat.cohort = self.cohort
        return bool(moved) or made is not None

    def reserve_rings(self, width: int) -> bool:
        """A ring without room for `width` columns moves its last w to the front. True if one did."""
        moved = False
        for ring in self.rings:
            full = [s for s in self.cohort.members.values() if s.ring_end[ring] + width > ring_columns(ring)]
            moves = [Move(s.row or 0, s.ring_end[ring] - ring, s.row or 0, 0, ring) for s in full]
            self.buffers.move(ring, moves)
            for seat in full:
                seat.ring_end[ring] = ring
            moved = moved or bool(full)
        return moved

    def lengths(self, ids: tuple[int, ...]) -> list[int] | None:
        """Positions of the members in this order, if they are the cohort and none has moved since its last step."""
        lines = self.cohort.lines
        return (self.cohort.stored_len - lines.lead_pad).tolist() if lines is not None and lines.ids == ids else None

    def lines(self, ids: tuple[int, ...]) -> Lines:
        """Where the rows of these members lie; read from their seats only after a change."""
        lines = self.cohort.lines
        if lines is None or lines.ids != ids:
            seats = [self.cohort.members[id] for id in ids]
            rows, pads = int_array([seat.row or 0 for seat in seats]), int_array([seat.lead_pad for seat in seats])
            lines = self.cohort.lines = Lines(ids, rows, pads)
        return lines

    def geometry(self, kind: int | None, lines: Lines, counts: IntArray) -> Geometry:
        """What attention may read in layers of a kind, with room for counts[b] new columns in row b."""
        stored = np.full(len(lines.ids), self.cohort.stored_len, dtype=np.int32)
        if kind is not None:
            end = int_array([self.cohort.members[id].ring_end[kind] for id in lines.ids])
            return make_geometry(lines.row, end - (stored - lines.lead_pad), end, counts)
        return make_geometry(lines.row, lines.lead_pad, stored, counts)

    def views(self, ids: tuple[int, ...], counts: IntArray) -> tuple[LayerView, ...]:
        """K and V of every layer with the geometry of its kind, for these members."""
        lines, arrays = self.lines(ids), self.buffers.arrays
        shared = {kind: self.geometry(kind, lines, counts) for kind in self.spec.kinds}
        return tuple([LayerView(*arrays[layer], shared[ring]) for layer, ring in enumerate(self.spec.rings)])

    def commit(self, seats: Sequence[Seat], counts: Sequence[int], kept: Sequence[int], epoch: int) -> bool:
        """Row b keeps kept[b]; runs that fell behind move right to the new common end. True if one did."""
        most, moves = max(kept), self._fallen_behind(seats, counts, kept)
        for seat, stays in zip(seats, kept, strict=True) if self.rings else ():
            seat.ring_end = {width: stop + stays for width, stop in seat.ring_end.items()}
        self.buffers.move(None, moves)
        self.cohort.stored_len += most
        if min(kept) == most:
            return False
        self.cohort.lines = None
        for seat, stays in zip(seats, kept, strict=True):
            # guard[commit]: a row that kept fewer ends where the others end, so its dead prefix grows by its lag
            # mutant[commit/pad-not-grown]:
            #   - seat.lead_pad += most - stays
            #   + pass
            seat.lead_pad += most - stays
            seat.epoch = epoch if stays < most else seat.epoch
        return True

    def _fallen_behind(self, seats: Sequence[Seat], counts: Sequence[int], kept: Sequence[int]) -> list[Move]:
        """The columns that were refused die; runs shorter than the longest one must move right by their lag."""
        most, end = max(kept), self.cohort.stored_len
        if min(kept) == max(counts):
            return []
        moves = []
        for seat, written, stays in zip(seats, counts, kept, strict=True):
            lag, row = most - stays, seat.row or 0
            if lag:
                moves.append(Move(row, seat.lead_pad, row, seat.lead_pad + lag, seat.length + stays))
            self.buffers.kill(None, row, end + stays, end + written)
        return moves

    def release(self, seat: Seat) -> None:
        """Free the seat's row, and the buffers with the last one."""
        if seat.cohort is not None:
            seat.park()
            self.cohort.members = {i: member for i, member in self.cohort.members.items() if member is not seat}
        self.buffers.give(seat.row or 0)
        seat.row, seat.ring_end = None, {}
        if not self.buffers.used and not self.preallocated:
            self.buffers.clear()

    def _held(self) -> tuple[int, int]:
        return self.buffers.rows, self.buffers.columns

    def _size(self, members: dict[int, Seat], seated: Sequence[Seat], plan: ColumnPlan, renew: bool) -> tuple[int, int]:
        """(rows, columns) the buffers must have. Whenever they are made anew they are cut to what is needed now."""
        needed = len(seated) + sum(seat.staged for seat in members.values())
        if self.preallocated and needed > self.preallocated[0]:
            raise GeometryError(f"{needed} sequences do not fit the {self.preallocated[0]} rows allocated at start")
        if not renew and needed <= self.buffers.rows and plan.columns <= self.buffers.columns:
            return self._held()
        columns = max(plan.columns, *(seat.length for seat in seated), 0)
        return row_block(needed) if renew else self.buffers.rows_for(needed, columns), columns

    def _replace(
        self,
        made: Arrays,
        rows: int,
        columns: int,
        members: dict[int, Seat],
        seated: Sequence[Seat],
        stored_len: int,
    ) -> None:
        """Use the new buffers. All is copied once anyway, so members go to their final columns in the same copy."""
        inside, moves = set(map(id, members.values())), {kind: list[Move]() for kind in self.spec.kinds}
        placed = []
        for new, seat in enumerate(seated):
            start = stored_len - seat.length if id(seat) in inside else seat.lead_pad if seat.end <= columns else 0
            moves.setdefault(None, []).append(Move(seat.row or 0, seat.lead_pad, new, start, seat.length))
            for width, stop in seat.ring_end.items():
                moves[width].append(Move(seat.row or 0, 0, new, 0, stop))
            placed.append(start)
        self.buffers.adopt(made, rows, columns, moves)
        for new, (seat, start) in enumerate(zip(seated, placed, strict=True)):
            seat.row, seat.lead_pad, seat.own_end = new, start, start + seat.length

    def _shift(self, seats: Sequence[Seat], stored_len: int) -> None:
        """Seated rows move within their row until their run ends at stored_len."""
        self.buffers.move(
            None, [Move(s.row or 0, s.lead_pad, s.row or 0, stored_len - s.length, s.length) for s in seats]
        )
        for seat in seats:
            seat.lead_pad, seat.own_end = stored_len - seat.length, stored_len

    def _seat(self, seats: Sequence[Seat], stored_len: int, pool: StagePool) -> None:
        """Staged rows are copied to free rows, so that their run ends at stored_len; their staging is given back."""
        rows = [self.buffers.take() for _ in seats]
        moves = [
            Move(seat.row or 0, 0, row, stored_len - seat.length, seat.length)
            for seat, row in zip(seats, rows, strict=True)
        ]
        self.buffers.move(None, moves, pool.buffers)
        for seat, row in zip(seats, rows, strict=True):
            for layer, slot in seat.ring_slots.items():
                for source, buffer in zip((slot.k, slot.v), self.buffers.arrays[layer], strict=True):
                    if source is not None:
                        self.memory.move(source[None], buffer, [Move(0, slot.start, row, 0, slot.stored)])
                seat.ring_end[slot.width] = slot.stored
            pool.release(seat)
            seat.row, seat.staged = row, False
            seat.lead_pad, seat.own_end = stored_len - seat.length, stored_len
