"""What a child is asked to do, and what it answers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from itertools import count

from teachkv.mutate.judge import ASSERTION, RAISE, TestOutcome
from teachkv.mutate.swap import Plan

KILL = (ASSERTION, RAISE)


@dataclass
class Task:
    """Run the tests `nodeids` in one child under `plan` (None: no mutant), for at most `budget` seconds.

    `noop` applies the same code once more instead; `trace` are the mutants whose spans are watched for; the child
    stops after the first outcome in `stop_at`. `cold` asks for a fresh interpreter. `observe` names functions, as
    [file, qualified name], whose results the answer shall carry. `memory` is the address space it starts with, None
    where that shall not be limited. `nonce` is set at the start.
    """

    id: str
    nodeids: list[str]
    budget: float
    plan: Plan | None = None
    noop: bool = False
    trace: tuple[str, ...] = ()
    cold: bool = False
    stop_at: tuple[str, ...] = ()
    observe: list[list[str]] = field(default_factory=list)
    memory: int | None = None
    nonce: str = ""
    serial: int = field(default_factory=count().__next__)


@dataclass
class Answer:
    """One child's message. `stage` is "run", or "collect" when the tests could not be collected under the mutant."""

    id: str
    nonce: str
    stage: str = "run"
    applied: bool = True
    tests: list[TestOutcome] = field(default_factory=list)

    def encode(self) -> bytes:
        """Length, newline, JSON: the parent knows when it has all of it."""
        body = json.dumps({**self.__dict__, "tests": [test.to_data() for test in self.tests]}).encode()
        return b"%d\n" % len(body) + body

    @classmethod
    def decode(cls, raw: bytes) -> Answer | None:
        """The answer once it is complete; None for a part of one and for anything that is none."""
        if not raw.endswith(b"}"):
            return None
        try:
            head, _, body = raw.partition(b"\n")
            data = json.loads(body) if len(body) == int(head) else {}
            tests = [TestOutcome.from_data(test) for test in data.pop("tests")]
            return cls(tests=tests, **data)
        except (ValueError, KeyError, TypeError):
            return None


def send(descriptor: int, answer: Answer) -> None:
    """Writes the whole message; the parent reads while a long one is written."""
    raw = memoryview(answer.encode())
    while raw:
        raw = raw[os.write(descriptor, raw) :]
