"""Front alignment: rows of unequal length made to end at one column, all of them or none.

    before                  after front_align_batch(rows, 8)
    row 0  k k k k k k k k  k k k k k k k k   lead_pad 0
    row 1  k k k k k        . . . k k k k k   lead_pad 3
    row 2  k k              . . . . . . k k   lead_pad 6

Keys were rotated at their positions when they were written. Moving a column changes no position, so nothing is
rotated here. The dead columns hold zeros (NaN under poison); a zero key is not a masked key, it scores 0 and takes
softmax weight, so every reader must leave them unread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teachkv.errors import PlanRefused
from teachkv.kv.slots import SequenceRows, Slot
from teachkv.kv.view import IntArray


def batch_can_be_ragged(rows: Sequence[Sequence[Slot]]) -> bool:
    """The capability predicate: every slot of every row supports a length of its own.

    Two callers. At load it is asked of the model's slot prototypes, and that answer is what the scheduler reads; when
    a batch is built it is asked of the actual rows.
    """
    # guard[capability]: one ring layer is enough to make front alignment meaningless for the whole model
    # origin: the seed document
    # mutant[capability/always-true]:
    #   - return all(slot.supports_per_sequence_len for slots in rows for slot in slots)
    #   + return True
    # mutant[capability/not-any]: decoy
    #   - return all(slot.supports_per_sequence_len for slots in rows for slot in slots)
    #   + return not any(not slot.supports_per_sequence_len for slots in rows for slot in slots)
    return all(slot.supports_per_sequence_len for slots in rows for slot in slots)


def front_align_obstacle(rows: Sequence[SequenceRows], target: int, width: int) -> tuple[int, int] | None:
    """(layer, row) of the first slot that cannot be padded to `target` and still take `width` columns, or None."""
    for b, row in enumerate(rows):
        for layer, slot in enumerate(row.slots):
            if not slot.would_align(target) or target + width > slot.maximum:
                return layer, b
    return None


def front_align_would_succeed(rows: Sequence[SequenceRows], target: int, width: int) -> bool:
    """Whether `front_align_batch` would finish for every slot of every row. Touches nothing."""
    return front_align_obstacle(rows, target, width) is None


def front_align_batch(rows: Sequence[SequenceRows], target: int, epoch: int) -> None:
    """Pad every row, in place, to `target` columns; each row's `lead_pad` says by how much.

    A row changes in one assignment, slots and pad together, so that even an allocation failure half way leaves
    every row readable. What it does not leave is every row as it was: hence the question asked before.
    """
    for row in rows:
        lead_pad = target - row.slots[0].length
        row.slots, row.lead_pad, row.epoch = (
            tuple(slot.front_padded(target) for slot in row.slots),
            row.lead_pad + lead_pad,
            epoch if lead_pad else row.epoch,
        )
        row.borrowed = False


def slot_lengths(rows: Sequence[SequenceRows]) -> IntArray:
    """[layers, rows] lengths, in positions seen (a full slot's dead prefix counts: it is part of its length)."""
    return np.array([[slot.length for slot in row.slots] for row in rows], dtype=np.int32).T


def ensure_uniform_batch_cache_lens(lengths: IntArray, layers: Sequence[int] | None = None) -> int:
    """The hard postcondition: `lengths` [K, B] hold one number. Returns it.

    Line k speaks for layer `layers[k]` (default: layer k). Raises PlanRefused naming layer, row and both lengths. It is
    no `assert`: under `python -O` a batch of unequal rows would write at columns its rows do not own.
    """
    expected = int(lengths[0, 0])
    wrong = np.argwhere(lengths != expected)
    if len(wrong):
        line, row = (int(index) for index in wrong[0])
        layer = line if layers is None else layers[line]
        reason = f"rows of one batch must share one length, found {int(lengths[line, row])} beside {expected}"
        raise PlanRefused(reason, layer=layer, row=row, lengths=lengths[line].tolist())
    return expected
