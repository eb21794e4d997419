"""The batch kept in place: rows join, leave and are shifted where they lie; a change costs what it changes.

    join      copy a staged row's L columns to [stored_len - L, stored_len)          O(L)
    leave     mark the row free (drop), or leave it where it is (park)               O(1)
    realign   a row longer than stored_len joins: shift all rows right               logged, counted, bounded
    compact   columns used up: shift all rows left by the smallest lead pad          logged, counted, bounded

Ring layers refuse raggedness, so their cohorts have one length and nothing is ever aligned in them: each row keeps
its own ring, with its own end, and a full ring moves its last w columns to the front. That is the whole of it.

A sequence that sits out a step is parked in its row, uncopied. A cohort whose rows have become equally long keeps its
dead prefix until the next compaction: giving it up at once would cost every row.
"""

from __future__ import annotations

from collections.abc import Sequence

from teachkv.errors import GeometryError, SlotError
from teachkv.kv.admission import admit, seat_slots
from teachkv.kv.base import CacheBase, OpenPart
from teachkv.kv.batch_cache import CacheStats, LiveLayer, LiveRows, checked_counts, checked_kept
from teachkv.kv.batch_rows import BatchRows
from teachkv.kv.budget import batch_columns, rectangle_bytes, staging_columns
from teachkv.kv.columns import plan_columns
from teachkv.kv.geometry import int_array
from teachkv.kv.memory import MemoryOps
from teachkv.kv.row_buffers import row_block
from teachkv.kv.seat import Seat
from teachkv.kv.spec import CacheSpec
from teachkv.kv.stage_pool import StagePool
from teachkv.kv.view import CacheView


class IncrementalBatchCache(CacheBase):
    """A `BatchCache` in place.

    rows    allocate that many rows of the maximum width at once and never move them (devices); None: grow
    budget  while half of these bytes suffice, growing buffers take more than is needed now, so that they grow less
            often; None: no bound, 0: never more than is needed
    """

    def __init__(
        self,
        spec: CacheSpec,
        ops: MemoryOps,
        *,
        rows: int | None = None,
        budget: int | None = None,
        poison: bool | None = None,
    ) -> None:
        super().__init__(spec, ops, poison=poison, budget=budget)
        self.batch = BatchRows(self.memory, spec, None if rows is None else (rows, spec.maximum))
        self.pool = StagePool(self.memory, spec)
        self._seats: dict[int, Seat] = {}

    def add(self, request_id: int) -> None:
        """Make room for a sequence of length 0."""
        if request_id in self._seats:
            raise GeometryError(f"sequence {request_id} is already in the cache")
        self._seats[request_id] = Seat(epoch=self.geometry_epoch)

    def drop(self, request_id: int) -> None:
        """Forget a sequence; its row is free at once."""
        seat = self._get(request_id)
        self._forget_views_of(request_id)
        if not seat.staged:
            self._note(f"leave id={request_id}")
        (self.pool if seat.staged else self.batch).release(seat)
        del self._seats[request_id]

    def length(self, request_id: int) -> int:
        """Positions computed so far."""
        return self._get(request_id).length

    def truncate(self, request_id: int, n: int) -> None:
        """Forget the positions from n on: the run ends earlier, so the row parks until it is aligned again."""
        seat = self._get(request_id)
        self._check_open([request_id], "change")
        length = seat.length
        if not 0 <= n <= length:
            raise SlotError(f"a sequence of {length} positions cannot be set to {n}")
        # guard[ring-rows-rollback]: a row in place must refuse what its slot would refuse
        # origin: mistral.rs, rotating cache
        # mutant[ring-rows-rollback/removed]:
        #   - if n < length and any(ring is not None and length > ring for ring in self.spec.rings):
        #   + if False:
        if n < length and any(ring is not None and length > ring for ring in self.spec.rings):
            raise SlotError(f"a ring that dropped some of {length} positions cannot roll back to {n}")
        if n < length:
            self._cut(request_id, seat, length - n)

    def load_rows(self, request_id: int, rows: LiveRows) -> None:
        """Give an empty sequence rows that were computed before."""
        seat = self._get(request_id)
        if seat.row is not None:
            raise GeometryError(f"sequence {request_id} already holds {seat.length} positions")
        self._check_loadable(rows)
        self._seats[request_id] = self._staged_with(rows)

    def open_prefill(self, ids: Sequence[int], counts: Sequence[int]) -> CacheView:
        """B prompts, counts[b] tokens each, in their rows of staging. Raises RowAtMaximum."""
        members, tokens = checked_counts(ids, counts)
        self._check_open(members, "prefill")
        lengths = [self.length(member) for member in members]
        self._refuse_full_rows(lengths, tokens)
        for member in members:
            if not self._seats[member].staged:
                self._unseat(member, self._seats[member])
        seats = [self._seats[member] for member in members]
        staged = self._staged()
        everyone = [*staged, *(seat for seat in seats if seat.row is None)]
        wanted = {id(seat): seat.end + count for seat, count in zip(seats, tokens, strict=True)}
        ends = {i: wanted[id(seat)] for i, seat in enumerate(everyone) if id(seat) in wanted}
        self.pool.reserve(staged, ends, everyone[len(staged) :])
        rings = self.pool.stage_rings(seats, tokens)
        views = self.pool.views(seats, tokens, rings)
        return self._opened(OpenPart("prefill", members, tokens, rings), views, lengths)

    def open_decode(self, ids: Sequence[int], counts: Sequence[int] | None = None) -> CacheView:
        """B rows behind one append column. Raises PlanRefused, RowAtMaximum; every row is then as it was."""
        members, tokens = checked_counts(ids, counts)
        self._check_open(members, "decode")
        unmoved, width = self.batch.lengths(members), max(tokens)
        lengths = unmoved or [self.length(member) for member in members]
        self._refuse_full_rows(lengths, tokens)
        self._refuse_width(lengths, width)
        cohort = self.batch.cohort
        same = unmoved is not None or set(members) == set(cohort.members)
        if not same or cohort.stored_len + width > self.batch.buffers.columns:
            self._form({member: self._seats[member] for member in members}, width)
        if self.batch.reserve_rings(width):
            self.geometry_epoch += 1
        layers = self.batch.views(members, int_array(tokens))
        return self._opened(OpenPart("decode", members, tokens), layers, lengths)

    def fixed_view(self) -> CacheView | None:
        """A view of no rows over the rows that were allocated at start; None where they grow."""
        nothing = int_array([])
        if self.batch.preallocated is None:
            return None
        return CacheView(self.batch.views((), nothing), nothing, self.geometry_epoch)

    def close(self, view: CacheView, kept: Sequence[int] | None = None) -> None:
        """Row b keeps the first kept[b] tokens (default: all); rows that keep fewer move up to the common end."""
        part = self._take_open(view)
        kept = checked_kept(part.counts, kept)
        seats = [self._seats[member] for member in part.ids]
        if part.kind == "prefill":
            self.pool.commit(seats, part.counts, kept, part.staged)
        elif self.batch.commit(seats, part.counts, kept, self.geometry_epoch + 1):
            self.geometry_epoch += 1
            self._note(f"commit rows={len(seats)} kept={min(kept)}..{max(kept)}")

    def live_rows(self, request_id: int, epoch: int | None = None) -> LiveRows:
        """Owned copies of the live rows. Raises GeometryError if they moved after `epoch`."""
        seat = self._get(request_id)
        self._check_epoch(request_id, seat.epoch, epoch)
        layers = []
        slots = seat_slots(seat, self.prototypes, self.batch, self.pool)
        for layer, slot in enumerate(slots):
            # guard[reader-run]: the row begins with dead columns here too; only the live run is anybody's content
            # origin: the seed document
            # mutant[reader-run/from-column-zero]:
            #   - owned = slot.stripped(0 if self.spec.rings[layer] else seat.lead_pad)
            #   + owned = slot.stripped(0)
            owned = slot.stripped(0 if self.spec.rings[layer] else seat.lead_pad)
            layers.append(LiveLayer(*owned.content(), first=owned.length - owned.stored))
        return LiveRows(seat.length, tuple(layers))

    def invalidate(self) -> None:
        """Forget open views; every row is as of its last close, and whatever was written behind it dies."""
        self._open.clear()
        for buffers, seats in ((self.pool.buffers, self._staged()), (self.batch.buffers, self._seated())):
            for seat in seats:
                buffers.kill(None, seat.row or 0, seat.end, buffers.columns)

    def bytes_for(self, lengths: Sequence[int], staging: Sequence[int] = ()) -> int:
        """Upper bound once all is settled. A growing buffer stands beside its successor while it is copied."""
        rows = row_block(len(lengths)) if self.batch.preallocated is None else self.batch.preallocated[0]
        columns = batch_columns(self.spec, lengths) if self.batch.preallocated is None else self.spec.maximum
        staged = rectangle_bytes(self.spec, row_block(len(staging)), staging_columns(self.spec, staging))
        return rectangle_bytes(self.spec, rows, columns) + staged

    def slack(self) -> int:
        """Bytes held beyond `bytes_for` what is resident: what `trim` would give back, at least."""
        seated = [] if self.batch.preallocated else [seat.length for seat in self._seated()]
        return max(0, self.memory.held_bytes - self.bytes_for(seated, [seat.length for seat in self._staged()]))

    def trim(self) -> None:
        """Cut batch and staging to what is resident now."""
        if self._open:
            raise GeometryError("close or invalidate the open views before trimming")
        self.pool.trim(self._staged())
        members, seated = self.batch.cohort.members, self._seated()
        if seated and self.batch.preallocated is None:
            lengths = [seat.length for seat in members.values()] or [0]
            plan = plan_columns(self.batch.cohort.stored_len, lengths, 1, 0, self.spec.maximum)
            self.batch.form(dict(members), seated, plan, self.pool, self.geometry_epoch + 1, renew=True)
            self.geometry_epoch += 1

    def stats(self) -> CacheStats:
        """Counts so far; `allocated_bytes` is batch, staging, and the rings of staged sequences."""
        rings = [item for seat in self._staged() for item in seat.ring_slots.items()]
        held = [(layer, side) for layer, slot in rings for side in (slot.k, slot.v)]
        for buffers in (self.batch.buffers, self.pool.buffers):
            held += [(layer, side) for layer, pair in buffers.arrays.items() for side in pair]
        self._stats.hold(held, self.spec.layers)
        self._stats.moved_bytes = self.memory.moved_bytes
        return self._stats

    def _form(self, seats: dict[int, Seat], width: int) -> None:
        """Ask everything, then change the cohort to `seats`."""
        plan = admit(seats, width, self.prototypes, self.batch, self.pool)
        leaving = [member for member in self.batch.cohort.members if member not in seats]
        joining = [member for member, seat in seats.items() if seat.staged]
        if self.batch.form(seats, self._seated(), plan, self.pool, self.geometry_epoch + 1):
            self.geometry_epoch += 1
        for member in leaving:
            self._note(f"leave id={member}")
        for event in plan.events:
            self._note(event)
        for member in joining:
            self._note(f"join id={member} length={seats[member].length} lead_pad={seats[member].lead_pad}")

    def _unseat(self, request_id: int, seat: Seat) -> None:
        """Back to staging: a sequence of the batch gets another prompt chunk."""
        self._seats[request_id] = self._staged_with(self.live_rows(request_id))
        self.batch.release(seat)
        self._note(f"leave id={request_id}")

    def _staged_with(self, rows: LiveRows) -> Seat:
        """A new seat in staging that holds `rows`; none if memory runs out half way."""
        seat, staged = Seat(epoch=self.geometry_epoch), self._staged()
        self.pool.reserve(staged, {len(staged): rows.length}, [seat])
        try:
            self.pool.load(seat, rows)
        except BaseException:
            self.pool.release(seat)
            raise
        return seat

    def _cut(self, request_id: int, seat: Seat, by: int) -> None:
        if seat.cohort is not None:
            del seat.cohort.members[request_id]
            seat.park()
        buffers = self.pool.buffers if seat.staged else self.batch.buffers
        if seat.row is not None:
            buffers.kill(None, seat.row, seat.end - by, seat.end)
        seat.own_end -= by
        seat.ring_end = {width: stop - by for width, stop in seat.ring_end.items()}
        for slot in seat.ring_slots.values():
            slot.set_len(slot.length - by)

    def _staged(self) -> list[Seat]:
        return [seat for seat in self._seats.values() if seat.staged and seat.row is not None]

    def _seated(self) -> list[Seat]:
        return [seat for seat in self._seats.values() if not seat.staged]

    def _get(self, request_id: int) -> Seat:
        if request_id not in self._seats:
            raise GeometryError(f"sequence {request_id} is not in the cache")
        return self._seats[request_id]
