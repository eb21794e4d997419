"""Runs a Numba kernel as plain Python: no GPU, no compiler, no simulator switch. For tiny shapes, tests and stepping.

Blocks run one after another; the threads of a block take turns, each from one barrier to the next, always in the same
order. So a run can be repeated, stopped in a debugger and recorded. Shared memory starts as NaN. A thread that misses a
barrier, leaves an array or races with another is an error that names the line.
Numba's own simulator runs the same kernels; it lets threads run freely, which takes some ten times as long.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, TracebackType
from typing import Any

import numpy as np
from numba import cuda

from cuda_kernels.numba_tools.cuda_words import CudaWords, Size
from cuda_kernels.numba_tools.memory import Access, CheckedArray, History, StepError, Watch
from cuda_kernels.numba_tools.turns import Turns

HERE = {__file__, *map(inspect.getsourcefile, (CheckedArray, CudaWords, Turns))}


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
    turns, threads = None, math.prod(block)
    if any("syncthreads" in piece.__code__.co_names for piece in made.values()):
        turns = words.turns = Turns(words.become, threads, lambda: function(*checked))
    try:
        for number, at in enumerate(itertools.product(*(range(n) for n in grid))):
            words.begin(number, at)
            if turns is not None:
                turns.run_block()
                continue
            for thread in range(threads):
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
