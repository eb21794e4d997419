"""The scheduler's memory of all live requests, indexed so that a step touches only what changed.

Nothing ages by being visited: a request keeps the step at which it began to wait, and a bucket keeps the sum of its
members' numbers. All sums are whole numbers, so adding and taking away never drifts and the order never matters.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import merge
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
    since: the first step it has not run in, so `step - since` is how long it has been waiting.
    level: TOGETHER, or after a refused plan EXACT (equal lengths only) or ALONE.
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


class QueueState:
    """All live requests: two queues of those without a seat, the seats by arrival, and buckets of the seated."""

    def __init__(self, key_of: Callable[[Entry], Key]) -> None:
        self.key_of = key_of
        self.step = 0
        self.quiet_steps = 0  # steps since a prompt last ran
        self.arrivals = 0
        self.entries: dict[int, Entry] = {}
        self.fresh: OrderedDict[int, Entry] = OrderedDict()
        self.returning: list[Entry] = []
        self.seats: list[Entry] = []
        self.prefilling: list[Entry] = []
        self.buckets: dict[Key, Bucket] = {}
        self.running: dict[int, None] = {}
        self.holding: set[int] = set()
        self.reported: set[str] = set()
        self.noted: tuple[str, ...] = ()

    def queue(self) -> Iterator[Entry]:
        """Requests without a seat, first come first. Lazy: taking n of them costs O(n)."""
        # guard[arrival-order]: a preempted request keeps its place before everyone who came later
        # mutant[arrival-order/m30-reversed]:
        #   - return merge(self.returning, self.fresh.values(), key=by_arrival)
        #   + return iter([*reversed(self.fresh.values()), *reversed(self.returning)])
        # mutant[arrival-order/preempted-goes-last]:
        #   - return merge(self.returning, self.fresh.values(), key=by_arrival)
        #   + return iter([*self.fresh.values(), *self.returning])
        return merge(self.returning, self.fresh.values(), key=by_arrival)

    def place(self, entry: Entry) -> None:
        """Put a seated entry into the bucket of its present key."""
        entry.key = self.key_of(entry)
        self.buckets.setdefault(entry.key, Bucket()).add(entry)

    def unplace(self, entry: Entry) -> None:
        """Take an entry out of its bucket; must come before any of its numbers change."""
        if entry.key is None:
            return
        bucket = self.buckets[entry.key]
        bucket.remove(entry)
        if not bucket.members:
            del self.buckets[entry.key]
        entry.key = None

    def seat(self, entry: Entry) -> None:
        if entry.id in self.fresh:
            del self.fresh[entry.id]
        else:
            _take(self.returning, entry)
        entry.phase, entry.computed = "prefill", entry.cached
        insort(self.seats, entry, key=by_arrival)
        insort(self.prefilling, entry, key=by_arrival)
        self.place(entry)

    def unseat(self, entry: Entry) -> None:
        self.unplace(entry)
        _take(self.seats, entry)
        if entry.phase == "prefill":
            _take(self.prefilling, entry)
        self.holding.discard(entry.id)
        self.running.pop(entry.id, None)

    def prefilled(self, entry: Entry) -> None:
        """All of its target is computed; it decodes from now on."""
        entry.phase = "decode"
        _take(self.prefilling, entry)

    def come_back(self, entry: Entry) -> None:
        insort(self.returning, entry, key=by_arrival)

    def snapshot(self) -> tuple[Entry, ...]:
        """Copies of all entries in order of arrival, without the index: what the list-scanning twins read."""
        return tuple(replace(e, key=None) for e in sorted(self.entries.values(), key=by_arrival))


def _take(entries: list[Entry], entry: Entry) -> None:
    at = bisect_left(entries, entry.arrival, key=by_arrival)
    if at == len(entries) or entries[at] is not entry:
        raise LookupError(f"request {entry.id} is not in this list")
    del entries[at]
