"""The step trace: one record of plain data per step. Pictures, logs and lessons are drawn from it alone."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RowRecord:
    """One sequence in one step. Columns are those of its buffer: the row's live run is [lead_pad, end)."""

    id: int
    kind: str
    row: int
    lead_pad: int
    end: int
    new_tokens: int


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token drawn in the step; `finish` is why the sequence ended with it, if it did."""

    id: int
    token: int
    finish: str | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step planned, what it ran on and what came of it. Times in seconds.

    seconds: from its launch, or from the end of the step before if that came later, to its end.
    waited_seconds: of these, how long the host waited for the drawn tokens; the rest is the host's own work.
    """

    step: int
    plan: dict[str, Any]
    running: int
    waiting: int
    resident: int
    rows: tuple[RowRecord, ...] = ()
    tokens: tuple[TokenRecord, ...] = ()
    events: tuple[str, ...] = ()
    prefill_tokens: int = 0
    decode_tokens: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    refused: str | None = None
    waited_seconds: float = 0.0

    def __str__(self) -> str:
        head = f"step {self.step}: {self.running} running, {self.waiting} waiting, {self.resident} resident"
        rows = "; ".join(f"#{r.id} {r.kind} row {r.row} live [{r.lead_pad},{r.end}) +{r.new_tokens}" for r in self.rows)
        drawn = " ".join(f"#{t.id}:{t.token}{'/' + t.finish if t.finish else ''}" for t in self.tokens)
        parts = (head, rows, drawn, "events: " + ", ".join(self.events) if self.events else "", self.refused or "")
        return " | ".join(part for part in parts if part)


@dataclass(slots=True)
class Trace:
    """Keeps the records of an engine, all of them or the last `limit`."""

    limit: int | None = None
    records: list[StepRecord] = field(default_factory=list)

    def add(self, record: StepRecord) -> None:
        self.records.append(record)
        if self.limit is not None and len(self.records) > self.limit:
            del self.records[: -self.limit]

    def save(self, path: str | Path) -> None:
        write_jsonl(self.records, path)


def write_jsonl(records: Iterable[StepRecord], path: str | Path) -> None:
    """One JSON object per line, keys as in StepRecord."""
    with open(path, "w", encoding="utf-8") as out:
        for record in records:
            out.write(json.dumps(asdict(record), separators=(",", ":")) + "\n")


def read_jsonl(path: str | Path) -> list[StepRecord]:
    """The inverse of write_jsonl."""
    with open(path, encoding="utf-8") as lines:
        return [from_dict(json.loads(line)) for line in lines]


def from_dict(data: dict[str, Any]) -> StepRecord:
    data = dict(data)
    data["rows"] = tuple(RowRecord(**row) for row in data["rows"])
    data["tokens"] = tuple(TokenRecord(**token) for token in data["tokens"])
    data["events"] = tuple(data["events"])
    return StepRecord(**data)
