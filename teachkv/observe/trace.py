"""The step trace: one record of plain data per step. Pictures, logs and lessons are drawn from it alone."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
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


Details = Callable[[StepRecord], StepRecord]


class Trace:
    """Keeps the records of an engine. Plan, rows and tokens are spelled out when somebody reads: with 128 rows that is
    a third of a step on a GPU, and what is measured with a trace would be the trace."""

    def __init__(self) -> None:
        self._records: list[StepRecord] = []
        self._details: list[Details] = []

    def add(self, record: StepRecord, details: Details) -> None:
        """`details` completes the record, of this step, whatever has happened since."""
        self._records.append(record)
        self._details.append(details)

    @property
    def records(self) -> list[StepRecord]:
        """All so far, in order; a list of the caller's own."""
        first = len(self._records) - len(self._details)
        self._records[first:] = [
            tell(record) for record, tell in zip(self._records[first:], self._details, strict=True)
        ]
        self._details.clear()
        return list(self._records)

    def take(self) -> list[StepRecord]:
        """The same, and forget them."""
        taken, self._records = self.records, []
        return taken

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
