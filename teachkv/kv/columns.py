"""Where the shared append column goes: the plain arithmetic of realign, compact and grow. Nothing is moved here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teachkv.kv.spec import GROW, round_up

ROOM = 64  # columns; a realign makes room for rows that are longer by up to this


@dataclass(frozen=True)
class ColumnPlan:
    """`stored_len` before the step's tokens, `columns` the buffer must have, and what to log about it."""

    stored_len: int
    columns: int
    events: tuple[str, ...]


def plan_columns(stored_len: int, lengths: Sequence[int], width: int, columns: int, maximum: int) -> ColumnPlan:
    """The cohort's rows have `lengths`; `width` columns come next; the buffer has `columns` of at most `maximum`.

    realign   a row longer than stored_len joins: all shift right, to its length rounded up, so that the next slightly
              longer one need not shift them again. To a whole block of 512, the next token would need another block
    compact   the columns are used up and the smallest lead pad is worth a shift left
    grow      otherwise; amortised, each column is copied once per 512 tokens
    """
    longest, events = max(lengths), []
    if longest > stored_len:
        by = -stored_len
        # guard[realign-cap]: rounded up to the maximum, the rows would have no column left for this step
        # mutant[realign-cap/removed]:
        #   - stored_len = min(-(-longest // ROOM) * ROOM, maximum - width)
        #   + stored_len = min(-(-longest // ROOM) * ROOM, maximum)
        stored_len = min(-(-longest // ROOM) * ROOM, maximum - width)
        events.append(f"realign rows={len(lengths)} by={by + stored_len}")
    if stored_len + width > columns:
        spare = stored_len - longest
        # guard[compact]: past the maximum there is nothing to grow into, and the dead prefix is the only room left
        # mutant[compact/never]:
        #   - if spare >= GROW or stored_len + width > maximum:
        #   + if False:
        # mutant[compact/only-whole-blocks]:
        #   - if spare >= GROW or stored_len + width > maximum:
        #   + if spare >= GROW:
        if spare >= GROW or stored_len + width > maximum:
            stored_len = longest
            events.append(f"compact rows={len(lengths)} by={spare}")
    if stored_len + width > columns:
        columns = round_up(stored_len + width, maximum)
        events.append(f"grow columns={columns}")
    return ColumnPlan(stored_len, columns, tuple(events))
