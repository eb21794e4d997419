"""The running/waiting line, the path line and the engagement log.

The line counts prompt tokens and generated tokens apart: their sum is no rate that any client ever sees. It is printed
while work goes on, at most once per interval, and once when the engine drains, so that a short run shows one too.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from teachkv.observe.trace import StepRecord


@dataclass(slots=True)
class IntervalLog:
    """Prints `<N> running, <M> waiting` with rates over the interval. `emit` takes one line; None = silent."""

    emit: Callable[[str], None] | None
    interval: float = 5.0
    clock: Callable[[], float] = time.monotonic
    _since: float = 0.0
    _prefill: int = 0
    _decode: int = 0
    _last: StepRecord | None = None

    def __post_init__(self) -> None:
        self._since = self.clock()

    def see(self, record: StepRecord, hit_rate: float | None = None) -> None:
        if self.emit is None:
            return
        if self._last is None:
            self._since = self.clock() - record.seconds
        self._prefill += record.prefill_tokens
        self._decode += record.decode_tokens
        self._last = record
        if self.clock() - self._since >= self.interval:
            self.flush(hit_rate)

    def flush(self, hit_rate: float | None = None) -> None:
        """Print what has been seen since the last line; nothing if nothing was."""
        if self.emit is None or self._last is None:
            return
        seconds = max(self.clock() - self._since, 1e-9)
        last = self._last
        hits = "" if hit_rate is None else f", prefix hit rate {hit_rate:.0%}"
        self.emit(
            f"{last.running} running, {last.waiting} waiting, {last.resident} resident; "
            f"prefill {self._prefill / seconds:.1f} tok/s, decode {self._decode / seconds:.1f} tok/s{hits}"
        )
        self._prefill = self._decode = 0
        self._last, self._since = None, self.clock()


@dataclass(slots=True)
class EngagementLog:
    """Says once, when a mechanism first acts, that it did: "did nothing" must differ from "was not on the path"."""

    emit: Callable[[str], None] | None
    first_step: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def see(self, record: StepRecord) -> None:
        for event in record.events:
            name = event.split(":")[0].split()[0]
            self.counts[name] = self.counts.get(name, 0) + 1
            if name in self.first_step:
                continue
            self.first_step[name] = record.step
            if self.emit is not None:
                self.emit(f"engaged: {name} (step {record.step}: {event})")
