"""Watching the engine: step trace, running/waiting line, engagement log. Nothing here changes what the engine does."""

from teachkv.observe.log import EngagementLog, IntervalLog
from teachkv.observe.observer import Observer, Totals
from teachkv.observe.trace import Details, RowRecord, StepRecord, TokenRecord, Trace, read_jsonl, write_jsonl

__all__ = [
    "Details",
    "EngagementLog",
    "IntervalLog",
    "Observer",
    "RowRecord",
    "StepRecord",
    "TokenRecord",
    "Totals",
    "Trace",
    "read_jsonl",
    "write_jsonl",
]
