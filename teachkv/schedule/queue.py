"""The scheduler's memory of all live requests, indexed so that a step touches only what changed."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import merge

from teachkv.schedule.entry import TOGETHER, Entry, Key, by_arrival


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state without any index: copies of all entries in order of arrival. What the list-scanning twins read."""

    step: int
    quiet_steps: int
    rows: tuple[Entry, ...]
    running: frozenset[int]
    reported: frozenset[str]
    noted: tuple[str, ...]


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
        self.buckets: dict[Key, dict[int, Entry]] = {}
        self.running: dict[int, None] = {}
        self.holding: set[int] = set()
        self.reported: set[str] = set()
        self.noted: tuple[str, ...] = ()

    def queue(self) -> Iterator[Entry]:
        """Requests without a seat, first come first. Lazy: taking n of them costs O(n)."""
        # guard[arrival-order]: a preempted request keeps its place before everyone who came later
        # origin: EricLBuehler/mistral.rs#2033
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
        self.buckets.setdefault(entry.key, {})[entry.id] = entry

    def unplace(self, entry: Entry) -> None:
        """Take an entry out of its bucket."""
        if entry.key is None:
            return
        bucket = self.buckets[entry.key]
        del bucket[entry.id]
        if not bucket:
            del self.buckets[entry.key]
        entry.key = None

    def regroup(self, entry: Entry) -> None:
        """Its numbers have changed: if it has a bucket, it goes to that of its present key."""
        if entry.key is not None and self.key_of(entry) != entry.key:
            self.unplace(entry)
            self.place(entry)

    def seat(self, entry: Entry) -> None:
        if entry.id in self.fresh:
            del self.fresh[entry.id]
        else:
            _take(self.returning, entry)
        # guard[seat-age]: long waits outside would outrank whoever sits already, one newcomer after another
        # mutant[seat-age/from-arrival]:
        #   - entry.phase, entry.computed, entry.since = "prefill", entry.cached, self.step
        #   + entry.phase, entry.computed = "prefill", entry.cached
        entry.phase, entry.computed, entry.since = "prefill", entry.cached, self.step
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
        """All of its target is computed; it decodes from now on, whatever stood in the way of its staging."""
        entry.phase, entry.level = "decode", TOGETHER
        _take(self.prefilling, entry)

    def come_back(self, entry: Entry) -> None:
        insort(self.returning, entry, key=by_arrival)

    def forget(self, entry: Entry) -> None:
        """Take a request out wherever it is: in a seat, in the queue, or on its way back."""
        if entry.phase != "waiting":
            self.unseat(entry)
        elif entry.id in self.fresh:
            del self.fresh[entry.id]
        else:
            _take(self.returning, entry)
        del self.entries[entry.id]

    def snapshot(self) -> Snapshot:
        rows = tuple(replace(entry, key=None) for entry in sorted(self.entries.values(), key=by_arrival))
        told = frozenset(self.reported)
        return Snapshot(self.step, self.quiet_steps, rows, frozenset(self.running), told, self.noted)


def _take(entries: list[Entry], entry: Entry) -> None:
    at = bisect_left(entries, entry.arrival, key=by_arrival)
    if at == len(entries) or entries[at] is not entry:
        raise LookupError(f"request {entry.id} is not in this list")
    del entries[at]
