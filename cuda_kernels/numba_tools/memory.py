"""Arrays as a stepped kernel sees them: every access is checked, ordered against the others, and recorded if asked.

Two accesses are ordered if one thread makes both, or if a barrier of their block lies between them. Blocks are never
ordered. Two unordered accesses of one element, one of them a write, are a race, whatever happened to come out.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

ATOMIC = -2
MANY = -1


class StepError(RuntimeError):
    """A kernel broke a rule: outside an array, a race, a barrier that not all threads of a block reach."""


class Moment(NamedTuple):
    """Who touched an element, and after how many barriers. MANY threads or blocks may have read it."""

    block: int
    thread: int
    epoch: int


class Access(NamedTuple):
    """One recorded access of one element; `offset` counts elements in C order."""

    block: int
    thread: int
    array: int
    write: bool
    offset: int


@dataclass
class Watch:
    """What is running now, and the record: set by the stepper, read by every array."""

    now: Moment = field(default_factory=lambda: Moment(0, 0, 0))
    accesses: list[Access] | None = None


@dataclass
class History:
    """Last write and last reads of each element of one buffer; buffers passed twice share one history."""

    writes: dict[int, Moment] = field(default_factory=dict)
    reads: dict[int, Moment] = field(default_factory=dict)


class CheckedArray:
    """A NumPy array behind checks. Kernels index it with one integer per axis, as they do on the device."""

    def __init__(self, name: str, data: np.ndarray[Any, Any], watch: Watch, history: History, number: int = -1) -> None:
        self.name, self.data, self.shape, self.size = name, data, data.shape, data.size
        self.dtype, self.ndim = data.dtype, data.ndim
        self._flat, self._watch, self._history, self._number = data.reshape(-1), watch, history, number

    def __getitem__(self, index: Any) -> Any:
        at = self.offset(index)
        now, before = self._watch.now, self._history.writes.get(at)
        if before is not None and before is not now and unordered(before, now):
            raise StepError(f"race on {self.place(index)}: read by {who(now)}, written by {who(before)}, no barrier")
        seen = self._history.reads.get(at)
        if seen is not now:
            self._history.reads[at] = now if seen is None else together(seen, now)
        if self._watch.accesses is not None:
            self._record(at, write=False)
        return self._flat[at]

    def __setitem__(self, index: Any, value: Any) -> None:
        at = self.offset(index)
        self.claim(index, at, self._watch.now)
        self._record(at, write=True)
        self._flat[at] = value

    def add(self, index: Any, value: Any) -> Any:
        """cuda.atomic.add: atomics do not race with each other, only with plain accesses. Returns the old value."""
        at, now = self.offset(index), self._watch.now
        before = self._history.writes.get(at)
        if before is None or before.thread != ATOMIC or before.block != now.block:
            self.claim(index, at, now)
        self._history.writes[at] = now._replace(thread=ATOMIC)
        self._record(at, write=True)
        old = self._flat[at]
        self._flat[at] = old + value
        return old

    def claim(self, index: Any, at: int, now: Moment) -> None:
        """Take note of a write. Raises StepError if it races."""
        for what, before in (("written", self._history.writes.get(at)), ("read", self._history.reads.get(at))):
            if before is not None and unordered(before, now):
                raise StepError(
                    f"race on {self.place(index)}: written by {who(now)}, {what} by {who(before)}, no barrier"
                )
        self._history.writes[at] = now

    def offset(self, index: Any) -> int:
        """Elements from the start. Raises StepError outside the array; a negative index never wraps around."""
        if self.ndim == 1 and type(index) is int and 0 <= index < self.size:
            return index
        axes = index if isinstance(index, tuple) else (index,)
        if len(axes) != self.ndim:
            raise StepError(f"{self.place(index)}: {self.ndim} indices are needed, kernels take no slices")
        at = 0
        for i, length in zip(axes, self.shape, strict=True):
            if not 0 <= i < length:
                raise StepError(f"{self.place(index)} lies outside shape {self.shape}")
            at = at * length + operator.index(i)
        return at

    def place(self, index: Any) -> str:
        """The element as one would write it."""
        axes = index if isinstance(index, tuple) else (index,)
        return f"{self.name}[{', '.join(str(i) for i in axes)}]"

    def _record(self, at: int, *, write: bool) -> None:
        if self._watch.accesses is not None and self._number >= 0:
            now = self._watch.now
            self._watch.accesses.append(Access(now.block, now.thread, self._number, write, at))


def unordered(before: Moment, now: Moment) -> bool:
    """May the two happen in either order?"""
    if before.block != now.block:
        return True
    return before.epoch == now.epoch and before.thread != now.thread


def together(seen: Moment, now: Moment) -> Moment:
    """Readers of an element: the latest epoch of one block, and whether it was one thread."""
    if seen.block != now.block:
        return Moment(MANY, MANY, now.epoch)
    if seen.epoch != now.epoch or seen.thread == now.thread:
        return now
    return now._replace(thread=MANY)


def who(moment: Moment) -> str:
    """A thread in words."""
    if moment.block == MANY:
        return "several blocks"
    names = {MANY: "several threads", ATOMIC: "an atomic"}
    return f"{names.get(moment.thread, f'thread {moment.thread}')} of block {moment.block}"


def poisoned(shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Fresh shared or local memory: NaN, or -1 in integers. Nobody may count on what was there before."""
    fresh = np.empty(shape, dtype)
    fresh.view(np.uint8).fill(0xFF)
    return fresh
