"""A step costs what changed and how many buckets there are, never how many requests wait. Counted, not timed."""

import gc
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from schedule_steps import carry_out

from teachkv.schedule import ColumnBudget, Scheduler, scheduler
from teachkv.schedule.entry import Entry, log2_fixed

POLICIES = ["bucketed", "ragged", "packed"]


class Counted(Entry):
    """An entry that counts every look at it, also from inside C code such as sorted() and min()."""

    __slots__ = ()
    looks = 0

    def __getattribute__(self, name: str) -> Any:
        Counted.looks += 1
        return super().__getattribute__(name)


class Lines:
    """Counts the Python lines that run while it is open."""

    def __enter__(self) -> "Lines":
        self.count = 0
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        self.count += event == "line"
        return self._trace


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for n in range(1, 1000):
        log2_fixed(n)  # it remembers its answers; the first to ask would pay for the others
    before = sys.gettrace()
    monkeypatch.setattr(scheduler, "Entry", Counted)
    gc.disable()  # others have hung callbacks on the collector, whose lines are not the scheduler's
    yield
    gc.enable()
    sys.settrace(before)


def costs(policy: str, waiting: int, *, budget: bool) -> tuple[int, int]:
    """The most (lines, looks at entries) of one whole step, of 30 in which nobody else comes in."""
    memory = {"budget": ColumnBudget(10_000_000)} if budget else {}
    subject = Scheduler(policy, max_num_seqs=16, **memory)
    for id in range(16 + waiting):
        subject.add(id, 10 + id % 500)
    for _ in range(40):
        carry_out(subject)
    lines, looks = 0, 0
    for _ in range(30):
        Counted.looks = 0
        with Lines() as counter:
            carry_out(subject)
        lines, looks = max(lines, counter.count), max(looks, Counted.looks)
    assert len(subject.state.seats) == 16
    assert len(subject.state.fresh) == waiting
    return lines, looks


@pytest.mark.parametrize("budget", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_number_of_waiting_requests_costs_nothing(policy: str, budget: bool) -> None:
    assert costs(policy, 10, budget=budget) == costs(policy, 20_000, budget=budget)


@pytest.mark.parametrize("policy", POLICIES)
def test_letting_requests_in_and_out_costs_what_they_are(policy: str) -> None:
    """Every step one request ends, one comes in and one arrives, before a queue of 10 or of 20,000."""
    seen = []
    for waiting in (10, 20_000):
        subject = Scheduler(policy, max_num_seqs=4)
        for id in range(4 + waiting):
            subject.add(id, 10)
        carry_out(subject)
        Counted.looks = 0
        with Lines() as counter:
            for i in range(100):
                subject.finish(subject.state.seats[0].id)
                subject.finish(next(reversed(subject.state.fresh)))
                subject.add(10**6 + i, 10)
                subject.add(2 * 10**6 + i, 10)
                carry_out(subject)
        seen.append((counter.count, Counted.looks))
    assert all(b <= 1.02 * a for few, many in pairwise(seen) for a, b in zip(few, many, strict=True))
