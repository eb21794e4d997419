"""A trace as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Touch(NamedTuple):
    """One access: `length` elements from `offset` on (in C order) of array number `array`, read or written."""

    block: int
    thread: int
    array: int
    write: bool
    offset: int
    length: int


@dataclass(frozen=True)
class ArrayTrace:
    """A global array as the kernel names it. A shape of one axis may stand for scratch of unknown shape."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LiveRun:
    """Columns first .. stop - 1 of a buffer row are live; what lies before is the dead prefix."""

    row: int
    first: int
    stop: int


@dataclass(frozen=True)
class LaunchTrace:
    """One launch: grid and block as (x, y, z), touches in the order in which they happened."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: tuple[ArrayTrace, ...]
    touches: tuple[Touch, ...]

    def number_of(self, name: str) -> int | None:
        """The array's number, if this launch takes it."""
        names = [array.name for array in self.arrays]
        return names.index(name) if name in names else None

    def along(self, name: str, axis: int) -> Iterator[tuple[Touch, int, int]]:
        """(touch, index on the first axis, index on `axis`) for every place of `name` that was touched.

        A vector has one row, 0.
        """
        number = self.number_of(name)
        if number is None:
            return
        shape = self.arrays[number].shape
        inner, outer = math.prod(shape[axis + 1 :]), math.prod(shape[1:])
        for touch in self.touches:
            if touch.array == number:
                last = touch.offset + touch.length - 1
                # A vector access may cross from one index to the next.
                for place in range(touch.offset // inner, last // inner + 1):
                    yield touch, place * inner // outer if axis else 0, place % shape[axis]


@dataclass(frozen=True)
class KernelTrace:
    """All launches of one call of one op. `live` is filled for ops that know a geometry."""

    op: str
    telling: str
    launches: tuple[LaunchTrace, ...]
    live: tuple[LiveRun, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; touches become lists, in the order of Touch's fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> KernelTrace:
        """The inverse of to_dict, also after a round trip through JSON."""
        launches = tuple(
            LaunchTrace(
                launch["kernel"],
                tuple(launch["grid"]),
                tuple(launch["block"]),
                tuple(ArrayTrace(a["name"], tuple(a["shape"]), a["dtype"]) for a in launch["arrays"]),
                tuple(Touch(*touch) for touch in launch["touches"]),
            )
            for launch in data["launches"]
        )
        return cls(data["op"], data["telling"], launches, tuple(LiveRun(**run) for run in data["live"]))

    def dead_reads(self, *names: str) -> list[tuple[str, int, int]]:
        """(array, row, column) of every read before a row's first live column; empty if the kernel is right."""
        first = {run.row: run.first for run in self.live}
        found = {
            (name, row, column)
            for launch in self.launches
            for name in names
            for touch, row, column in launch.along(name, 2)
            if not touch.write and column < first.get(row, 0)
        }
        return sorted(found)
