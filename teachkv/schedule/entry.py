"""One live request, and the key it is grouped by.

Nothing ages by being visited: a request keeps the step at which it began to wait. All numbers are whole, so that sums
of them never drift and the order never matters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Literal, NamedTuple

Phase = Literal["waiting", "prefill", "decode"]
ONE = 1 << 16  # priorities are counted in 1/65536, in whole numbers
TOGETHER, EXACT, ALONE = 0, 1, 2  # whom a request may share a batch with: see Entry.level


class Key(NamedTuple):
    """What must be equal for requests to run in one bucket. `alone` is an id when nobody may join, else -1."""

    kind: Literal["prompt", "decode"]
    length: int
    offset: int = 0
    alone: int = -1

    def __str__(self) -> str:
        hit = f"+{self.offset}" if self.offset else ""
        return f"{self.kind}@{self.length}{hit}" + ("" if self.alone < 0 else f" alone {self.alone}")


RAGGED = Key("decode", 0)  # a decoder holds at least one position, so no exact bucket has this key, at any length


@cache
def log2_fixed(n: int) -> int:
    """log2(n) in units of 1/ONE, rounded down, by squaring: whole numbers give the same answer on every machine."""
    whole = n.bit_length() - 1
    mantissa, fraction = (n << 62) >> whole, 0
    for _ in range(16):
        mantissa = mantissa * mantissa >> 62
        fraction <<= 1
        if mantissa >> 63:
            mantissa >>= 1
            fraction |= 1
    return whole * ONE + fraction


@dataclass(slots=True)
class Entry:
    """One live request as the scheduler knows it: lengths only, in tokens.

    tokens: prompt and generated; target: tokens to compute before it decodes; computed: positions that hold KV.
    since: the first step in its seat that it has not run in, so `step - since` is how long it has been passed over.
    level: TOGETHER, or after a refused plan EXACT (equal lengths only) or ALONE.
    ending: its last token is being drawn; it keeps its seat until `finish` and is in no bucket.
    """

    id: int
    arrival: int
    tokens: int
    since: int
    target: int
    cached: int = 0
    computed: int = 0
    phase: Phase = "waiting"
    level: int = TOGETHER
    preemptions: int = 0
    ending: bool = False
    key: Key | None = None

    @property
    def claim(self) -> int:
        """Columns it must be able to hold: to the end of its prefill and one more, then what the next step writes."""
        return self.tokens if self.tokens > self.target else self.target + 1


by_arrival: Callable[[Entry], int] = attrgetter("arrival")
