"""What a guard says."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["held", "refused", "cannot-answer", "unverified"]


@dataclass(frozen=True, slots=True)
class Answer:
    """`refused` fails the run. `cannot-answer`: the question had no teeth here; `unverified`: nobody could look."""

    guard: str
    status: Status
    reason: str = ""

    @property
    def failed(self) -> bool:
        return self.status in ("refused", "cannot-answer")

    def __str__(self) -> str:
        status = self.status.upper() if self.failed else self.status
        return f"{self.guard}: {status}" + (f": {self.reason}" if self.reason else "")


def held(guard: str, reason: str = "") -> Answer:
    return Answer(guard, "held", reason)


def refused(guard: str, reason: str) -> Answer:
    return Answer(guard, "refused", reason)
