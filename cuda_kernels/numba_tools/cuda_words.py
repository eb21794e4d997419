"""What `cuda` means inside a stepped kernel: indices, sizes, shared and local memory, atomics, the barrier."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cuda_kernels.numba_tools.memory import CheckedArray, History, Moment, Watch, poisoned
from cuda_kernels.numba_tools.turns import Turns

Size = tuple[int, int, int]


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
