"""The two kinds of slot behind one name, and what a sequence owns: its slots with the lead pad they carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from teachkv.kv.full_slot import FullSlot
from teachkv.kv.memory import Memory
from teachkv.kv.spec import CacheSpec
from teachkv.kv.window_slot import WindowSlot

Slot: TypeAlias = FullSlot | WindowSlot


def make_slot(memory: Memory, spec: CacheSpec, layer: int) -> Slot:
    """An empty slot of the layer's kind. The model's prototypes, which the scheduler's capability reads, are these."""
    width = spec.rings[layer]
    return FullSlot(memory, spec) if width is None else WindowSlot(memory, spec, width)


@dataclass
class SequenceRows:
    """One sequence's storage, as one value: `lead_pad` dead columns come first in every full slot.

    The pad travels with the rows it describes. A table beside them, keyed by sequence, outlived its rows in the
    parent engine and stripped real ones. `epoch` says in which geometry the rows were last moved; `borrowed` that
    the slots look into a batch's buffers instead of owning theirs.
    """

    slots: tuple[Slot, ...]
    lead_pad: int = 0
    epoch: int = 0
    borrowed: bool = False

    @property
    def length(self) -> int:
        """Positions computed: the live run of every layer."""
        return self.slots[0].length - self.lead_pad


def empty_rows(memory: Memory, spec: CacheSpec, epoch: int) -> SequenceRows:
    return SequenceRows(tuple(make_slot(memory, spec, layer) for layer in range(spec.layers)), 0, epoch)


def stripped_rows(rows: SequenceRows) -> SequenceRows:
    """The same rows without their dead prefix, in storage of their own. Touches nothing."""
    slots = tuple(slot.stripped(rows.lead_pad) for slot in rows.slots)
    return SequenceRows(slots, 0, rows.epoch)
