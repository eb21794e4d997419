"""The plain way to keep a batch: build it whenever its members change, hand every row back after every step.

    clone_in:  strip -> capability -> pre-flight, align -> postcondition -> build
    clone_out: each sequence gets its row as a view, with the lead pad it begins with; stripping waits

Stripping waits because clone_out runs every token and clone_in only when members change. Until then a sequence's rows
begin with dead columns, so every reader outside the batch goes through `live_rows`, which strips.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from teachkv.errors import GeometryError, OptionError
from teachkv.kv.base import CacheBase, OpenPart
from teachkv.kv.batch_cache import CacheStats, LiveLayer, LiveRows, checked_counts, checked_kept
from teachkv.kv.budget import bytes_for
from teachkv.kv.clone import clone_in, clone_out
from teachkv.kv.decode_batch import DecodeBatch
from teachkv.kv.geometry import int_array
from teachkv.kv.memory import MemoryOps
from teachkv.kv.slots import SequenceRows, empty_rows, stripped_rows
from teachkv.kv.spec import CacheSpec
from teachkv.kv.staging import stage_layer, staged_geometry
from teachkv.kv.view import Array, CacheView, LayerView


class RebuildBatchCache(CacheBase):
    """A `BatchCache` that copies whole rows whenever members change: the slow, obvious twin of the incremental one."""

    def __init__(
        self,
        spec: CacheSpec,
        ops: MemoryOps,
        *,
        strip: Literal["deferred", "eager"] = "deferred",
        poison: bool | None = None,
    ) -> None:
        if strip not in ("deferred", "eager"):
            raise OptionError(f"strip is 'deferred' or 'eager', got {strip!r}")
        super().__init__(spec, ops, poison=poison)
        self.strip = strip
        self._rows: dict[int, SequenceRows] = {}
        self._batch: DecodeBatch | None = None

    def add(self, request_id: int) -> None:
        """Make room for a sequence of length 0."""
        if request_id in self._rows:
            raise GeometryError(f"sequence {request_id} is already in the cache")
        self._rows[request_id] = empty_rows(self.memory, self.spec, self.geometry_epoch)

    def drop(self, request_id: int) -> None:
        """Forget a sequence."""
        self._get(request_id)
        self._forget_views_of(request_id)
        self._leave_batch(request_id)
        del self._rows[request_id]

    def length(self, request_id: int) -> int:
        """Positions computed so far."""
        return self._get(request_id).length

    def truncate(self, request_id: int, n: int) -> None:
        """Forget the positions from n on; a copy is cut first, so that a slot that refuses changes nothing."""
        cut = stripped_rows(self._get(request_id))
        for slot in cut.slots:
            slot.set_len(n)
        self._replace(request_id, cut)

    def load_rows(self, request_id: int, rows: LiveRows) -> None:
        """Give an empty sequence rows that were computed before."""
        if self.length(request_id):
            raise GeometryError(f"sequence {request_id} already holds {self.length(request_id)} positions")
        self._check_loadable(rows)
        fresh = empty_rows(self.memory, self.spec, self.geometry_epoch)
        loaded = [
            slot.handed(self._copied(layer.k), self._copied(layer.v), layer.k.shape[1], rows.length)
            for slot, layer in zip(fresh.slots, rows.layers, strict=True)
        ]
        self._replace(request_id, SequenceRows(tuple(loaded), 0, self.geometry_epoch))

    def open_prefill(self, ids: Sequence[int], counts: Sequence[int]) -> CacheView:
        """B prompts, counts[b] tokens each, in one staging buffer; slots change in `close`. Raises RowAtMaximum."""
        members, tokens = checked_counts(ids, counts)
        self._check_open(members, "prefill")
        lengths = [self.length(member) for member in members]
        self._refuse_full_rows(lengths, tokens)
        for member in members:
            self._leave_batch(member)
            if self._rows[member].borrowed:
                self._rows[member] = stripped_rows(self._rows[member])
        columns = [[self._rows[member].slots[layer] for member in members] for layer in range(self.spec.layers)]
        staged = [stage_layer(self.memory, self.spec, slots, tokens) for slots in columns]
        shared = {kind: staged_geometry(columns[layers[0]], tokens) for kind, layers in self.spec.kinds.items()}
        layers = tuple(s.view(shared[ring]) for s, ring in zip(staged, self.spec.rings, strict=True))
        return self._opened(OpenPart("prefill", members, tokens, staged), layers, lengths)

    def open_decode(self, ids: Sequence[int], counts: Sequence[int] | None = None) -> CacheView:
        """B rows behind one append column. Raises PlanRefused, RowAtMaximum; every row is then as it was."""
        members, tokens = checked_counts(ids, counts)
        self._check_open(members, "decode")
        lengths, width = [self.length(member) for member in members], max(tokens)
        self._refuse_full_rows(lengths, tokens)
        self._refuse_width(lengths, width)
        batch = self._batch
        if batch is None or batch.ids != members or not batch.has_columns(width):
            batch = self._form(members, width)
        if batch.reserve(width):
            self._hand_out(batch, moved=True)
        shared = {kind: batch.geometry(kind, int_array(tokens)) for kind in self.spec.kinds}
        layers = (LayerView(k, v, shared[ring]) for (k, v), ring in zip(batch.layers, self.spec.rings, strict=True))
        return self._opened(OpenPart("decode", members, tokens), tuple(layers), lengths)

    def close(self, view: CacheView, kept: Sequence[int] | None = None) -> None:
        """Row b keeps the first kept[b] tokens (default: all); rows that keep fewer move up to the common end."""
        part = self._take_open(view)
        kept = checked_kept(part.counts, kept)
        if part.kind == "decode":
            assert self._batch is not None
            moved = self._batch.commit(part.counts, kept)
            self._hand_out(self._batch, moved=moved)
            return
        extended = []
        for b, row in enumerate(self._rows[member] for member in part.ids):
            chunk = [staged.new_columns(b, kept[b]) for staged in part.staged]
            extended.append(tuple(slot.extended(*new) for slot, new in zip(row.slots, chunk, strict=True)))
        for member, slots in zip(part.ids, extended, strict=True):
            self._rows[member].slots = slots

    def live_rows(self, request_id: int, epoch: int | None = None) -> LiveRows:
        """Owned copies of the live rows. Raises GeometryError if they moved after `epoch`."""
        rows = self._get(request_id)
        self._check_epoch(request_id, rows.epoch, epoch)
        # guard[reader-strip]: between clone_out and the next clone_in rows begin with dead columns. A finished sequence
        # has no next clone_in, and its reader would keep 64 rows as content where 60 are real
        # origin: the seed document
        # mutant[reader-strip/removed]:
        #   - live = stripped_rows(rows)
        #   + live = SequenceRows(tuple(slot.stripped(0) for slot in rows.slots))
        live = stripped_rows(rows)
        layers = (LiveLayer(*slot.content(), first=slot.length - slot.stored) for slot in live.slots)
        return LiveRows(live.length, tuple(layers))

    def invalidate(self) -> None:
        """Forget open views and the batch; every row is as of its last close."""
        self._open.clear()
        self._batch = None

    def bytes_for(self, lengths: Sequence[int], staging: Sequence[int] = ()) -> int:
        """Upper bound; twice the rectangle, because rows are copied from the old storage while it still stands."""
        return 2 * bytes_for(self.spec, lengths, staging)

    def slack(self) -> int:
        """None: buffers are made to measure."""
        return 0

    def trim(self) -> None:
        """Nothing to do: buffers are made to measure at every membership change."""

    def stats(self) -> CacheStats:
        """Counts so far; `allocated_bytes` is the batch and what sequences own outside it."""
        owned = [rows.slots for rows in self._rows.values() if not rows.borrowed]
        held = [(layer, side) for slots in owned for layer, slot in enumerate(slots) for side in (slot.k, slot.v)]
        batch = [] if self._batch is None else self._batch.layers
        held += [(layer, side) for layer, pair in enumerate(batch) for side in pair]
        self._stats.hold(held, self.spec.layers)
        self._stats.moved_bytes = self.memory.moved_bytes
        return self._stats

    def _get(self, request_id: int) -> SequenceRows:
        if request_id not in self._rows:
            raise GeometryError(f"sequence {request_id} is not in the cache")
        return self._rows[request_id]

    def _form(self, members: tuple[int, ...], width: int) -> DecodeBatch:
        """clone_in, then let the sequences that stay behind own what they had in the old batch."""
        rows = [self._rows[member] for member in members]
        batch = clone_in(
            self.memory, self.spec, members, rows, width=width, epoch=self.geometry_epoch + 1, note=self._note
        )
        self._batch = batch
        self._hand_out(batch, moved=bool(batch.lead_pad.any()))
        for other, left in self._rows.items():
            if left.borrowed and other not in members:
                self._rows[other] = stripped_rows(left)
        return batch

    def _hand_out(self, batch: DecodeBatch, *, moved: bool) -> None:
        """clone_out, in a new epoch if any row's columns mean other positions than before."""
        self.geometry_epoch += int(moved)
        rows = [self._rows[member] for member in batch.ids]
        clone_out(batch, rows, self.geometry_epoch, eager=self.strip == "eager")

    def _leave_batch(self, request_id: int) -> None:
        """The rows of `request_id` are about to change behind the batch's back."""
        self._get(request_id)
        self._check_open([request_id], "change")
        # guard[stale-cohort]: the same ids would otherwise be taken for the same content at the next step
        # origin: the parent engine, cohort identity
        # mutant[stale-cohort/removed]:
        #   - if self._batch is not None and request_id in self._batch.ids:
        #   + if False:
        if self._batch is not None and request_id in self._batch.ids:
            self._batch = None

    def _copied(self, rows: Array) -> Array:
        copy: Array = self.memory.xp.array(rows)
        return copy

    def _replace(self, request_id: int, rows: SequenceRows) -> None:
        self._leave_batch(request_id)
        self._rows[request_id] = rows
