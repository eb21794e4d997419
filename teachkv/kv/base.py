"""What both batch caches share: the capability, the open views, the log of events, loading rows back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from teachkv.errors import GeometryError, PlanRefused, RowAtMaximum, SlotError
from teachkv.kv.align import batch_can_be_ragged
from teachkv.kv.batch_cache import Block, CacheStats, LiveLayer, LiveRows
from teachkv.kv.geometry import int_array, runs
from teachkv.kv.memory import Memory, MemoryOps
from teachkv.kv.slots import make_slot
from teachkv.kv.spec import CacheSpec
from teachkv.kv.view import Array, CacheView, LayerView


@dataclass(frozen=True)
class OpenPart:
    """An open view's members and token counts, and for a prompt part the staged layers."""

    kind: str
    ids: tuple[int, ...]
    counts: tuple[int, ...]
    staged: Any = None


class CacheBase(ABC):
    """State that does not depend on how the batch is kept."""

    def __init__(
        self, spec: CacheSpec, ops: MemoryOps, *, poison: bool | None = None, budget: int | None = None
    ) -> None:
        self.spec = spec
        self.memory = Memory(ops, poison=poison, budget=budget)
        self.prototypes = tuple(make_slot(self.memory, spec, layer) for layer in range(spec.layers))
        self.geometry_epoch = 0
        self._open: dict[CacheView, OpenPart] = {}
        self._events: list[str] = []
        self._stats = CacheStats()

    @property
    def can_be_ragged(self) -> bool:
        """The scheduler reads this: asked of the model's prototypes, so no cohort can flip it."""
        return batch_can_be_ragged([self.prototypes])

    def take_events(self) -> list[str]:
        """Events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def _note(self, event: str) -> None:
        """Log an event; its first word is also what it counts as."""
        name = event.split()[0] + "s"
        if hasattr(self._stats, name):
            setattr(self._stats, name, getattr(self._stats, name) + 1)
        self._events.append(event)

    def held(self) -> int:
        """Bytes that row buffers hold now."""
        return self.memory.held_bytes

    def fixed_view(self) -> CacheView | None:
        """Where buffers are made anew there is none."""
        return None

    @abstractmethod
    def length(self, request_id: int) -> int: ...

    @abstractmethod
    def load_rows(self, request_id: int, rows: LiveRows) -> None: ...

    def load_blocks(self, request_id: int, blocks: Sequence[Block]) -> None:
        """Prefix blocks, each one k, v [G, block_tokens, D] per layer, become positions 0 .. n * block_tokens - 1."""
        layers = []
        for layer in range(self.spec.layers):
            k, v = (self._scattered([block[layer][side] for block in blocks]) for side in (0, 1))
            layers.append(LiveLayer(k, v, 0))
        self.load_rows(request_id, LiveRows(layers[0].k.shape[1], tuple(layers)))

    def _scattered(self, blocks: Sequence[Array]) -> Array:
        stacked = self.memory.xp.stack([self.memory.xp.asarray(block) for block in blocks])
        columns = len(blocks) * stacked.shape[2]
        run = self.memory.buffer((1, self.spec.kv_heads, columns, self.spec.head_dim), self.spec.dtype)
        self.memory.ops.kv_scatter(stacked, run, 0, 0)
        row: Array = run[0]
        return row

    def _check_loadable(self, rows: LiveRows) -> None:
        if rows.length > self.spec.maximum or len(rows.layers) != self.spec.layers:
            raise SlotError(f"{rows.length} positions of {len(rows.layers)} layers do not fit {self.spec}")
        for layer, (width, held) in enumerate(zip(self.spec.rings, rows.layers, strict=True)):
            needed = rows.length if width is None else min(rows.length, width)
            # guard[loadable]: a row too few and every position behind it is shifted; a ring needs its whole window
            # origin: mlx-examples#977
            # mutant[loadable/removed]:
            #   - if held.first + held.k.shape[1] != rows.length or held.k.shape[1] < needed:
            #   + if False:
            if held.first + held.k.shape[1] != rows.length or held.k.shape[1] < needed:
                raise SlotError(f"layer {layer} needs the last {needed} of {rows.length} positions, has {held.k.shape}")

    def _check_open(self, ids: Sequence[int], kind: str) -> None:
        """A sequence may be in one open view, and one view of a kind may be open: opening may move its rows."""
        for part in self._open.values():
            # guard[one-open-view]: two views would write to the same append column, or one would hold old buffers
            # mutant[one-open-view/removed]:
            #   - if kind == part.kind or set(ids) & set(part.ids):
            #   + if False:
            if kind == part.kind or set(ids) & set(part.ids):
                raise GeometryError(f"close the open {part.kind} view of {list(part.ids)} before opening {list(ids)}")

    def _forget_views_of(self, request_id: int) -> None:
        """A view with a dropped member can no longer be closed; the other members are as of their last close."""
        self._open = {view: part for view, part in self._open.items() if request_id not in part.ids}

    def _opened(self, part: OpenPart, layers: tuple[LayerView, ...], lengths: Sequence[int]) -> CacheView:
        """`lengths` are the members' before the tokens of this view."""
        view = CacheView(layers, runs(int_array(lengths), int_array(part.counts)), self.geometry_epoch)
        self._open[view] = part
        return view

    def _take_open(self, view: CacheView) -> OpenPart:
        part = self._open.pop(view, None)
        if part is None:
            raise GeometryError(f"the view of epoch {view.epoch} is not open (closed, or invalidated since)")
        return part

    def _refuse_full_rows(self, lengths: Sequence[int], counts: Sequence[int]) -> None:
        """A row at its maximum is illegal in itself, whatever batch it is put in."""
        if max(lengths) + max(counts) <= self.spec.maximum:
            return
        for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            # guard[row-at-maximum]: found before any row is touched, so that the one row can end alone
            # origin: the seed document
            # mutant[row-at-maximum/removed]:
            #   - if length + count > self.spec.maximum:
            #   + if False:
            if length + count > self.spec.maximum:
                reason = f"the row has no room for {count} more within {self.spec.maximum} positions"
                raise RowAtMaximum(reason, layer=0, row=row, lengths=lengths)

    def _refuse_width(self, lengths: Sequence[int], width: int) -> None:
        """Several columns per row (speculation) may not fit behind the longest row, or not suit the model at all."""
        if min(lengths) < 1:
            raise GeometryError(f"row {lengths.index(min(lengths))} has nothing computed yet; it needs a prompt step")
        if max(lengths) + width > self.spec.maximum:
            reason = f"{width} columns behind the longest row leave the maximum of {self.spec.maximum}"
            raise PlanRefused(reason, layer=0, row=lengths.index(max(lengths)), lengths=lengths)
        if width > 1 and not self.can_be_ragged:
            layer = next(index for index, ring in enumerate(self.spec.rings) if ring is not None)
            reason = "several tokens per row may leave rows of unequal length, which a ring layer refuses"
            raise PlanRefused(reason, layer=layer, row=0, lengths=lengths)

    def _check_epoch(self, request_id: int, moved_in: int, epoch: int | None) -> None:
        # guard[epoch]: rows read by an old geometry would begin inside the dead prefix, or miss their first columns
        # origin: the seed document
        # mutant[epoch/removed]:
        #   - if epoch is not None and epoch < moved_in:
        #   + if False:
        if epoch is not None and epoch < moved_in:
            raise GeometryError(f"sequence {request_id} was moved in epoch {moved_in}; rows of epoch {epoch} are stale")
