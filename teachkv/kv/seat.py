"""Where one sequence lies in the incremental cache.

    empty     no row yet
    staged    a row of staging: column = position, ring layers in WindowSlots of its own
    seated    a row of the batch; in the cohort its live run ends at the shared stored_len, parked it keeps its own end

A sequence that sits out a step is parked: nothing is copied, its run just stays where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from teachkv.kv.view import IntArray
from teachkv.kv.window_slot import WindowSlot


class Lines(NamedTuple):
    """Buffer row and lead pad [B] of the members `ids`. Both stay as they are until somebody joins, leaves or moves."""

    ids: tuple[int, ...]
    row: IntArray
    lead_pad: IntArray


@dataclass(eq=False)
class Cohort:
    """The sequences that share an append column, by id in order of joining, and that column.

    lines: where its rows lie, as last asked for; None once a member has left, been parked or moved.
    """

    stored_len: int = 0
    members: dict[int, Seat] = field(default_factory=dict)
    lines: Lines | None = None


@dataclass(eq=False)
class Seat:
    """`row` is None while empty. `lead_pad` is the first live column; `ring_end[w]` one past the last in rings of w."""

    row: int | None = None
    staged: bool = True
    lead_pad: int = 0
    own_end: int = 0
    cohort: Cohort | None = None
    ring_end: dict[int, int] = field(default_factory=dict)
    ring_slots: dict[int, WindowSlot] = field(default_factory=dict)
    epoch: int = 0

    @property
    def end(self) -> int:
        """One past the last live column."""
        return self.own_end if self.cohort is None else self.cohort.stored_len

    @property
    def length(self) -> int:
        """Positions computed."""
        return self.end - self.lead_pad

    def park(self) -> None:
        """Leave the cohort, keep the row."""
        if self.cohort is not None:
            self.cohort.lines = None
        self.own_end, self.cohort = self.end, None
