"""One live request, the key it is grouped by, and a group with its sums.

Nothing ages by being visited: a request keeps the step at which it began to wait, and a bucket keeps the sum of its
members' numbers. All sums are whole numbers, so adding and taking away never drifts and the order never matters.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

Phase = Literal["waiting", "prefill", "decode"]
ONE = 1 << 16  # priorities are counted in 1/65536, in whole numbers
TOGETHER, EXACT, ALONE = 0, 1, 2  # whom a request may share a batch with: see Entry.level


class Key(NamedTuple):
    """What must be equal for requests to run in one bucket. `alone` is an id when nobody may join, else -1."""

    kind: Literal["prompt", "decode"]
    length: int
    offset: int = 0
    alone: int = -1

    def __str__(self) -> str:
        hit = f"+{self.offset}" if self.offset else ""
        return f"{self.kind}@{self.length}{hit}" + ("" if self.alone < 0 else f" alone {self.alone}")


RAGGED = Key("decode", 0)  # a decoder holds at least one position, so no exact bucket has this key


@cache
def log2_fixed(n: int) -> int:
    """log2(n) in units of 1/ONE, rounded down, by squaring: whole numbers give the same answer on every machine."""
    whole = n.bit_length() - 1
    mantissa, fraction = (n << 62) >> whole, 0
    for _ in range(16):
        mantissa = mantissa * mantissa >> 62
        fraction <<= 1
        if mantissa >> 63:
            mantissa >>= 1
            fraction |= 1
    return whole * ONE + fraction


@dataclass(slots=True)
class Entry:
    """One live request as the scheduler knows it: lengths only, in tokens.

    tokens: prompt and generated; target: tokens to compute before it decodes; computed: positions that hold KV.
    since: the first step in its seat that it has not run in, so `step - since` is how long it has been passed over.
    level: TOGETHER, or after a refused plan EXACT (equal lengths only) or ALONE.
    ending: its last token is being drawn; it keeps its seat until `finish` and is in no bucket.
    """

    id: int
    arrival: int
    tokens: int
    since: int
    target: int
    cached: int = 0
    computed: int = 0
    phase: Phase = "waiting"
    level: int = TOGETHER
    preemptions: int = 0
    ending: bool = False
    key: Key | None = None

    @property
    def claim(self) -> int:
        """Columns it must be able to hold: to the end of its prefill and one more, then what the next step writes."""
        return max(self.tokens, self.target + 1)


def by_arrival(entry: Entry) -> int:
    return entry.arrival


@dataclass(slots=True)
class Bucket:
    """Members of one key with their sums. `oldest` and `head` are recomputed only after their holder left."""

    members: dict[int, Entry] = field(default_factory=dict)
    count: int = 0
    since: int = 0
    weight: int = 0
    _edges: tuple[int, int] | None = None

    def add(self, entry: Entry) -> None:
        self.members[entry.id] = entry
        self.count += 1
        self.since += entry.since
        self.weight += log2_fixed(entry.tokens)
        if self._edges is not None:
            self._edges = min(self._edges[0], entry.since), min(self._edges[1], entry.arrival)

    def remove(self, entry: Entry) -> None:
        del self.members[entry.id]
        self.count -= 1
        self.since -= entry.since
        self.weight -= log2_fixed(entry.tokens)
        if self._edges is not None and (entry.since == self._edges[0] or entry.arrival == self._edges[1]):
            self._edges = None

    def change(self, entry: Entry, since: int, tokens: int) -> None:
        """A member gets new numbers and stays: the same as taking it out and in again, in a third of the time."""
        if self._edges is not None:
            oldest, head = self._edges
            self._edges = None if entry.since == oldest else (min(oldest, since), head)
        self.since += since - entry.since
        self.weight += log2_fixed(tokens) - log2_fixed(entry.tokens)
        entry.since, entry.tokens = since, tokens

    def without(self, gone: Collection[int]) -> "Bucket":
        """The sums as they are once `gone` have left, to be added to; costs O(members) only if one of them is here."""
        if not any(id in self.members for id in gone):
            return Bucket({}, self.count, self.since, self.weight, self.edges)
        rest = Bucket()
        for entry in self.members.values():
            if entry.id not in gone:
                rest.add(entry)
        return rest

    @property
    def edges(self) -> tuple[int, int]:
        """(step since which its longest waiting member waits, arrival of its first member)."""
        if self._edges is None:
            entries = self.members.values()
            self._edges = min(e.since for e in entries), min(e.arrival for e in entries)
        return self._edges
