"""clone_in and clone_out of the seed document: how rows become a batch, and how they come back.

Everything a refusal could regret stands before the first row is touched; what is done to rows before that (stripping)
leaves their live content as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from teachkv.errors import PlanRefused
from teachkv.kv.align import (
    batch_can_be_ragged,
    ensure_uniform_batch_cache_lens,
    front_align_batch,
    front_align_obstacle,
    front_align_would_succeed,
    slot_lengths,
)
from teachkv.kv.decode_batch import DecodeBatch
from teachkv.kv.memory import Memory
from teachkv.kv.slots import SequenceRows, stripped_rows
from teachkv.kv.spec import CacheSpec

Note = Callable[[str], None]


def strip_pending(row: SequenceRows) -> bool:
    """Drop the row's dead prefix, in place. True if there was one."""
    if not row.lead_pad:
        return False
    owned = stripped_rows(row)
    row.slots, row.lead_pad, row.borrowed = owned.slots, 0, False
    return True


def unalignable(
    rows: Sequence[SequenceRows], target: int, width: int, places: Sequence[int], lengths: Sequence[int]
) -> PlanRefused:
    """The refusal that names the first slot in the way. `places`: where `rows` stand among the part's rows."""
    layer, row = front_align_obstacle(rows, target, width) or (0, 0)
    reason = f"the row cannot be aligned to end at column {target} with {width} more to come"
    return PlanRefused(reason, layer=layer, row=places[row], lengths=lengths)


def clone_in(
    memory: Memory,
    spec: CacheSpec,
    ids: tuple[int, ...],
    rows: Sequence[SequenceRows],
    *,
    width: int,
    epoch: int,
    note: Note,
) -> DecodeBatch:
    """Build the batch of `rows`, with room for `width` columns more. `epoch` is that of an alignment, if one is needed.

    Raises PlanRefused, with the content of every row as it was.
    """
    for request_id, row in zip(ids, rows, strict=True):
        # guard[accumulation]: an alignment pads relative to the padded length, so an old pad would be kept for ever
        # origin: the seed document
        # mutant[accumulation/never-stripped]:
        #   - if strip_pending(row):
        #   + if False:
        if strip_pending(row):
            note(f"strip id={request_id}")
    lengths = slot_lengths(rows)
    target = int(lengths.max())
    if (lengths != target).any() and batch_can_be_ragged([row.slots for row in rows]):
        # guard[all-or-nothing]: padding works in place, so a failure at row r would leave the rows before it changed
        # origin: the seed document
        # mutant[all-or-nothing/no-preflight]:
        #   - if not front_align_would_succeed(rows, target, width):
        #   + if False:
        # mutant[all-or-nothing/pads-before-asking]:
        #   - if not front_align_would_succeed(rows, target, width):
        #   -     raise unalignable(rows, target, width, range(len(rows)), [row.length for row in rows])
        #   - front_align_batch(rows, target, epoch)
        #   + front_align_batch(rows, target, epoch)
        #   + if not front_align_would_succeed(rows, target, width):
        #   +     raise unalignable(rows, target, width, range(len(rows)), [row.length for row in rows])
        if not front_align_would_succeed(rows, target, width):
            raise unalignable(rows, target, width, range(len(rows)), [row.length for row in rows])
        front_align_batch(rows, target, epoch)
        note(f"align rows={len(rows)} target={target} pads={[row.lead_pad for row in rows]}")
    # guard[postcondition]: no batch of unequal lengths may leave clone_in; the shorter rows would write over columns
    # that are not theirs and attend to rows that nobody computed, without an error
    # origin: the seed document
    # mutant[postcondition/removed]:
    #   - ensure_uniform_batch_cache_lens(slot_lengths(rows))
    #   + pass
    ensure_uniform_batch_cache_lens(slot_lengths(rows))
    return DecodeBatch(memory, spec, ids, rows)


def clone_out(batch: DecodeBatch, rows: Sequence[SequenceRows], epoch: int, *, eager: bool) -> None:
    """Give each of the batch's sequences its row and its lead pad, in place. `eager` strips at once, every token."""
    for b, row in enumerate(rows):
        handed = batch.handed(b, row.slots, epoch)
        row.slots, row.lead_pad, row.epoch, row.borrowed = handed.slots, handed.lead_pad, epoch, True
        if eager:
            strip_pending(row)
