"""What the engine tells about each step, in one place: trace, running/waiting line, engagement log, totals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from teachkv.observe.log import EngagementLog, IntervalLog
from teachkv.observe.trace import Details, StepRecord, Trace


@dataclass(slots=True)
class Totals:
    """Sums over all steps. A step's seconds are split between prefill and decode by their share of its tokens."""

    steps: int = 0
    running_sum: int = 0
    running_max: int = 0
    resident_max: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    refused: int = 0

    def see(self, record: StepRecord) -> None:
        self.steps += 1
        self.running_sum += record.running
        self.running_max = max(self.running_max, record.running)
        self.resident_max = max(self.resident_max, record.resident)
        self.refused += record.refused is not None
        self.prefill_tokens += record.prefill_tokens
        self.decode_tokens += record.decode_tokens
        tokens = record.prefill_tokens + record.decode_tokens
        if tokens:
            self.prefill_seconds += record.seconds * record.prefill_tokens / tokens
            self.decode_seconds += record.seconds * record.decode_tokens / tokens

    def as_dict(self) -> dict[str, Any]:
        return {
            "count": self.steps,
            "refused": self.refused,
            "running_mean": self.running_sum / self.steps if self.steps else 0.0,
            "running_max": self.running_max,
            "resident_max": self.resident_max,
            "prefill_tokens": self.prefill_tokens,
            "decode_tokens": self.decode_tokens,
            "prefill_tokens_per_s": self.prefill_tokens / self.prefill_seconds if self.prefill_seconds else 0.0,
            "decode_tokens_per_s": self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0,
        }


class Observer:
    """Sees every step record once. `emit` takes one line of text; `keep` keeps the records."""

    def __init__(self, emit: Callable[[str], None] | None, *, keep: bool = False, interval: float = 5.0) -> None:
        self.log = IntervalLog(emit, interval)
        self.engagement = EngagementLog(emit)
        self.trace = Trace() if keep else None
        self.totals = Totals()

    def see(self, record: StepRecord, hit_rate: float | None, details: Details | None = None) -> None:
        """`details` completes the record for a trace."""
        self.totals.see(record)
        self.engagement.see(record)
        self.log.see(record, hit_rate)
        if self.trace is not None and details is not None:
            self.trace.add(record, details)
