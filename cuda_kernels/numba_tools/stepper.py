"""Runs a Numba kernel as plain Python: no GPU, no compiler, no simulator switch. For tiny shapes, tests and stepping.

Blocks run one after another; the threads of a block take turns, each from one barrier to the next, always in the same
order. So a run can be repeated, stopped in a debugger and recorded. Shared memory starts as NaN. A thread that misses a
barrier, leaves an array or races with another is an error that names the line.
Numba's own simulator runs the same kernels; it lets threads run freely, which takes some ten times as long.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, TracebackType
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from cuda_kernels.numba_tools.memory import Access, CheckedArray, History, Moment, StepError, Watch, poisoned

Size = tuple[int, int, int]
HERE = (__file__, inspect.getsourcefile(CheckedArray))


class Dim3(NamedTuple):
    """Index or size on three axes."""

    x: int
    y: int
    z: int


class SharedMemory:
    """cuda.shared: one array per place in the source and block."""

    def __init__(self, words: CudaWords) -> None:
        self._words, self._arrays = words, dict[tuple[str, int], CheckedArray]()

    def array(self, shape: int | tuple[int, ...], dtype: Any) -> CheckedArray:
        caller = sys._getframe(1)
        key = (caller.f_code.co_filename, caller.f_lineno)
        if key not in self._arrays:
            name = f"shared memory of line {caller.f_lineno}"
            self._arrays[key] = CheckedArray(name, poisoned(shape, dtype), self._words.watch, History())
        return self._arrays[key]


class LocalMemory:
    """cuda.local: fresh and poisoned at every call."""

    def array(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        return poisoned(shape, dtype)


class Atomics:
    """cuda.atomic, as far as the kernels use it."""

    def add(self, array: CheckedArray, index: Any, value: Any) -> Any:
        return array.add(index, value)


class CudaWords:
    """What `cuda` means inside a stepped kernel."""

    def __init__(self, grid: Size, block: Size, watch: Watch) -> None:
        self.gridDim, self.blockDim, self.watch = Dim3(*grid), Dim3(*block), watch
        self.blockIdx = self.threadIdx = Dim3(0, 0, 0)
        self.local, self.atomic = LocalMemory(), Atomics()
        self.shared = SharedMemory(self)
        self.turns: Turns | None = None

    def begin(self, number: int, at: Sequence[int]) -> None:
        """Start a block: new shared memory."""
        self.blockIdx, self.shared = Dim3(*at), SharedMemory(self)
        self.watch.now = Moment(number, 0, 0)

    def become(self, thread: int, epoch: int) -> None:
        """From here on `thread` runs."""
        x, y, _ = self.blockDim
        self.threadIdx = Dim3(thread % x, thread // x % y, thread // (x * y))
        self.watch.now = Moment(self.watch.now.block, thread, epoch)

    def syncthreads(self) -> None:
        caller = sys._getframe(1)
        assert self.turns is not None, "a kernel without a barrier met one"
        self.turns.wait(self.watch.now.thread, f"{caller.f_code.co_filename}:{caller.f_lineno}")


def locked() -> threading.Lock:
    """A lock that its first taker waits for: a signal from one OS thread to another, half the price of a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Stop(BaseException):
    """Ends a thread of a launch that has failed."""


class Turns:
    """The threads of a block as OS threads, of which exactly one runs at any time."""

    def __init__(self, words: CudaWords, count: int, body: Any) -> None:
        self._words, self._count, self._body = words, count, body
        self._mine = [locked() for _ in range(count)]
        self._back = locked()
        self._at: list[str | None] = [None] * count
        self._error: BaseException | None = None
        self._stop = False
        self._workers = [threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(count)]
        for worker in self._workers:
            worker.start()

    def run_block(self) -> None:
        """All threads to their end, barrier by barrier. Raises what a kernel raised, or StepError."""
        waiting, epoch = list(range(self._count)), 0
        while waiting:
            for i in waiting:
                self._words.become(i, epoch)
                self._mine[i].release()
                self._back.acquire()
                if self._error is not None:
                    raise self._error
            places = {self._at[i] for i in waiting}
            if len(places) > 1:
                missing = [i for i in waiting if self._at[i] is None]
                stands = " and ".join(sorted(place for place in places if place))
                where = f"threads {missing[:8]} never reach it" if missing else "threads wait at different barriers"
                raise StepError(f"barrier at {stands}: {where} (block {tuple(self._words.blockIdx)})")
            waiting = [] if places == {None} else waiting
            epoch += 1

    def wait(self, thread: int, place: str) -> None:
        """Called by a thread at a barrier: hand the turn back until all are here."""
        self._at[thread] = place
        self._back.release()
        self._mine[thread].acquire()
        if self._stop:
            raise Stop
        self._at[thread] = None

    def end(self) -> None:
        """Let every OS thread go."""
        self._stop = True
        for lock in self._mine:
            lock.release()
        for worker in self._workers:
            worker.join()

    def _work(self, thread: int) -> None:
        with np.errstate(all="ignore"):
            while True:
                self._mine[thread].acquire()
                if self._stop:
                    return
                try:
                    self._body()
                except Stop:
                    return
                except BaseException as error:
                    self._error = error
                self._at[thread] = None
                self._back.release()


@dataclass(frozen=True)
class Launch:
    """A recorded launch: arrays as (name, shape, dtype, address), accesses in the order in which they happened."""

    kernel: str
    grid: Size
    block: Size
    arrays: tuple[tuple[str, tuple[int, ...], str, int], ...]
    accesses: tuple[Access, ...]


_recorder: list[Launch] | None = None


@contextmanager
def recording() -> Iterator[list[Launch]]:
    """Every stepped launch inside appends what it read and wrote in global memory."""
    global _recorder
    before, _recorder = _recorder, []
    try:
        yield _recorder
    finally:
        _recorder = before


def step(kernel: Any, grid: Size, block: Size, arguments: Sequence[Any]) -> None:
    """Run every block of a launch to its end. Raises StepError that names the kernel, the thread and the line."""
    watch = Watch(accesses=None if _recorder is None else [])
    words, made = CudaWords(grid, block, watch), dict[int, FunctionType]()
    function = plain(kernel, words, made)
    checked = watched(function, arguments, watch)
    turns = None
    if any("syncthreads" in piece.__code__.co_names for piece in made.values()):
        turns = words.turns = Turns(words, block[0] * block[1] * block[2], lambda: function(*checked))
    try:
        for number, at in enumerate(itertools.product(*(range(n) for n in grid))):
            words.begin(number, at)
            if turns is not None:
                turns.run_block()
                continue
            for thread in range(block[0] * block[1] * block[2]):
                words.become(thread, 0)
                with np.errstate(all="ignore"):
                    function(*checked)
    except Exception as error:
        place, now = line_of(error.__traceback__), watch.now
        raise StepError(f"{function.__name__}: block {now.block}, thread {now.thread}, {place}: {error}") from error
    finally:
        if turns is not None:
            turns.end()
    if _recorder is not None:
        arrays = tuple(
            (a.name, tuple(a.shape), str(a.dtype), a.data.ctypes.data) for a in checked if isinstance(a, CheckedArray)
        )
        _recorder.append(Launch(function.__name__, grid, block, arrays, tuple(watch.accesses or ())))


def plain(kernel: Any, words: CudaWords, made: dict[int, FunctionType]) -> FunctionType:
    """The Python function behind a kernel, with `cuda` and the device functions it calls replaced in a copy."""
    function = getattr(kernel, "py_func", kernel)
    if id(function) not in made:
        names = dict(function.__globals__)
        made[id(function)] = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        for name in function.__code__.co_names:
            value = names.get(name)
            if value is cuda:
                names[name] = words
            elif hasattr(value, "py_func"):
                names[name] = plain(value, words, made)
    return made[id(function)]


def watched(function: FunctionType, arguments: Sequence[Any], watch: Watch) -> list[Any]:
    """Arrays behind checks, named as the kernel names them. One buffer passed twice has one history."""
    histories: dict[int, History] = {}
    checked: list[Any] = []
    for name, value in zip(inspect.signature(function).parameters, arguments, strict=True):
        if isinstance(value, np.ndarray):
            number = sum(isinstance(a, CheckedArray) for a in checked)
            history = histories.setdefault(value.ctypes.data, History()) if value.size else History()
            value = CheckedArray(name, value, watch, history, number)
        checked.append(value)
    return checked


def line_of(traceback: TracebackType | None) -> str:
    """The innermost line of kernel code."""
    place = "?"
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file not in HERE:
            place = f"{file}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
