"""The loop: damage an input that went somewhere new, read it, keep it if it went somewhere new again.

"Somewhere" is a pair of lines of the project's own code that ran one after another. What a run finds is saved as a file
that can be read again. The same seed and the same number of rounds give the same inputs.
"""

import hashlib
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from teachkv.errors import TeachKVError
from tests.fuzz.damage import damaged, words_of
from tests.fuzz.readers import Reader

OWN = (str(Path(__file__).parents[2] / "teachkv"), str(Path(__file__)))
HANG = 10  # seconds of computing for one input; a template may take 5 by its own limit
LONGEST = 1 << 17
MESSAGE = 700  # characters; messages quote foreign text, cut


class Hang(BaseException):
    """One input took too long. No `except Exception` of a reader may swallow it."""


class Lines:
    """Pairs of neighbouring lines of own code that one call runs."""

    def __init__(self, own: tuple[str, ...] = OWN) -> None:
        self.own, self.seen, self.last = own, set[tuple[int, int, int]](), 0

    def run(self, work: Callable[[], None]) -> set[tuple[int, int, int]]:
        self.seen = set()
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            work()
        finally:
            sys.settrace(before)
        return self.seen

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.own):
            return None
        self.last = 0
        return self._line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.seen.add((id(frame.f_code), self.last, frame.f_lineno))
            self.last = frame.f_lineno
        return self._line


@dataclass
class Finding:
    """An input that a reader neither took nor refused as it should."""

    reader: str
    what: str
    raw: bytes

    @property
    def name(self) -> str:
        return f"{self.reader.replace(' ', '-')}-{hashlib.sha256(self.raw).hexdigest()[:12]}.bin"


@dataclass
class Course:
    """One reader's run: its inputs so far, where they went, how they ended."""

    reader: Reader
    guided: bool = True
    own: tuple[str, ...] = OWN
    note: Callable[[bytes], None] = lambda raw: None  # told each input before it is read
    inputs: list[bytes] = field(default_factory=list)
    reached: set[tuple[int, int, int]] = field(default_factory=set)
    findings: dict[str, Finding] = field(default_factory=dict)
    rounds: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.words = [*words_of(self.reader.seeds), *self.reader.words]
        for seed in self.reader.seeds:
            self.attempt(seed, always=True)

    def round(self, draw: random.Random) -> None:
        """Damage one input and read it."""
        recent = draw.random() < 0.5
        parent = self.inputs[-1 - int(draw.expovariate(0.2)) % len(self.inputs)] if recent else draw.choice(self.inputs)
        self.rounds += 1
        self.attempt(damaged(parent, draw.choice(self.inputs), self.words, draw)[:LONGEST])

    def attempt(self, raw: bytes, *, always: bool = False) -> None:
        ending: list[str] = []
        self.note(raw)
        seen = Lines(self.own).run(lambda: ending.append(how_it_ends(self.reader, raw)))
        self.refused += ending[0] == "refused"
        if ending[0] not in ("read", "refused"):
            self.findings.setdefault(ending[0], Finding(self.reader.name, ending[0], raw))
        if always or (self.guided and not seen <= self.reached):
            self.inputs.append(raw)
        self.reached |= seen


def how_it_ends(reader: Reader, raw: bytes) -> str:
    """ "read", "refused", or what went wrong and where."""
    before = signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        reader.read(raw)
    except TeachKVError as problem:
        words = str(problem)
        wrong = "\n" in words or "\r" in words or not words.strip() or len(words) > MESSAGE
        return f"{reader.name}: message of {len(words)} characters: {words[:80]!r}" if wrong else "refused"
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # a panic of the tokenizers package is no Exception
        return f"{reader.name}: {type(problem).__name__} at {_place(problem)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return "read"


def _late(number: int, frame: FrameType | None) -> None:
    raise Hang


def _place(problem: BaseException) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(OWN[0])] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].name}: {own[-1].line}"


def fuzz(
    courses: list[Course],
    draw: random.Random,
    *,
    seconds: float | None = None,
    rounds: int | None = None,
    batch: int = 25,
    alive: Callable[[], None] = lambda: None,
) -> float:
    """All courses in turn until time or rounds (per course) are up; returns the seconds used. `alive` is called on the
    way.
    """
    begun, done = time.monotonic(), 0
    while (seconds is None or time.monotonic() - begun < seconds) and (rounds is None or done < rounds):
        alive()
        for course in courses:
            for _ in range(batch if rounds is None else min(batch, rounds - done)):
                course.round(draw)
        done += batch
    return time.monotonic() - begun
