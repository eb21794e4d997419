"""One way to start a Numba kernel.

    launch(kernel, (blocks, 1, 1), threads, x, out, eps)

CuPy arrays run on the device, in CuPy's current stream, so that Numba and raw kernels of one step follow one another.
NumPy arrays run in the stepper; with TEACHKV_NUMBA_RUNNER=simulator in Numba's own simulator.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.numba_tools.words import cuda, simulated

RUNNER = "TEACHKV_NUMBA_RUNNER"
Size = tuple[int, int, int]

_streams: dict[int, Any] = {}
_nothing: dict[tuple[Any, ...], Any] = {}


def launch(kernel: Any, grid: Size, threads: int, *arguments: Any) -> None:
    """Start `kernel` on a grid of blocks of `threads`. A grid with a zero starts nothing.

    Scalars arrive as float32 and int64, whatever Python calls them. Raises ValueError for an array that is not
    C-contiguous, TypeError for NumPy and CuPy arrays in one call, KernelUnavailable where nothing can run the kernel.
    """
    ready = [typed(value) for value in arguments]
    # guard[numba-empty-grid]: a step without decoding rows asks for zero blocks, which CUDA refuses
    # mutant[numba-empty-grid/launched]:
    #   - if 0 in grid:
    #   + if False:
    if 0 in grid:
        return
    if any(on_device(value) for value in ready):
        _on_device(kernel, grid, threads, ready)
    elif os.environ.get(RUNNER, "stepper") == "simulator":
        _in_simulator(kernel, grid, threads, ready)
    else:
        from cuda_kernels.numba_tools.stepper import step

        step(kernel, grid, (threads, 1, 1), ready)


def typed(value: Any) -> Any:
    """An argument as the kernel is compiled for: a Python float would make it compute in float64."""
    if isinstance(value, (bool, int, np.integer)):
        return np.int64(value)
    if isinstance(value, (float, np.floating)):
        return np.float32(value)
    if not value.flags.c_contiguous:
        raise ValueError(f"Numba kernels take C-contiguous arrays; got shape {value.shape}, strides {value.strides}")
    return value


def on_device(value: Any) -> bool:
    """Is this a CuPy array? Asked without importing CuPy."""
    return type(value).__module__.partition(".")[0] == "cupy"


def absent(array: Any, dims: int, like: Any) -> Any:
    """An optional array, or in its place one of length 0, which the kernel asks for by `.size`."""
    if array is not None:
        return array
    xp = sys.modules["cupy"] if on_device(like) else np
    key = xp, like.dtype, dims, like.data.device_id if on_device(like) else -1
    if key not in _nothing:
        # A slice of something: an empty allocation would have no address.
        _nothing[key] = xp.zeros((1,) * dims, like.dtype)[(slice(0, 0),) * dims]
    return _nothing[key]


def stream() -> Any:
    """CuPy's current stream as Numba knows it."""
    pointer = int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    if pointer not in _streams:
        _streams[pointer] = cuda.external_stream(pointer) if pointer else cuda.default_stream()
    return _streams[pointer]


def _on_device(kernel: Any, grid: Size, threads: int, arguments: Sequence[Any]) -> None:
    if simulated():
        raise KernelUnavailable("NUMBA_ENABLE_CUDASIM is set: Numba cannot reach the GPU that holds these arrays")
    ready = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            raise TypeError("a NumPy array among CuPy arrays: all of a call must live in one place")
        if on_device(value):
            value = view(value.data.device_id, value.data.ptr, value.shape, value.dtype)
        ready.append(value)
    kernel[grid, threads, stream()](*ready)


@lru_cache(maxsize=4096)
def view(device: int, pointer: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numba's array over memory that CuPy owns; bfloat16 as uint16. Making one takes longer than a launch.

    It is an address with a shape and keeps nothing alive, so one made for an array serves the next one at its place.
    """
    typestr = "<u2" if dtype.name == "bfloat16" else dtype.str
    described = {"shape": shape, "typestr": typestr, "data": (pointer, False), "version": 3, "strides": None}
    # No wait for a stream: everything runs in this one, and a graph capture may not wait.
    return cuda.from_cuda_array_interface(described, sync=False)


def _in_simulator(kernel: Any, grid: Size, threads: int, arguments: Sequence[Any]) -> None:
    """Numba copies every array in and out; an array passed twice must stay one array."""
    if not simulated():
        raise KernelUnavailable(f"{RUNNER}=simulator needs NUMBA_ENABLE_CUDASIM=1 before Numba is imported")
    arrays = {id(value): value for value in arguments if isinstance(value, np.ndarray)}
    copies = {key: cuda.to_device(value) for key, value in arrays.items()}
    with np.errstate(all="ignore"):
        kernel[grid, threads](*(copies.get(id(value), value) for value in arguments))
    for key, value in arrays.items():
        if value.flags.writeable and value.size:
            copies[key].copy_to_host(value)


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def row_threads(length: int) -> int:
    """Threads that share a row: a power of two, chosen by the row's length alone, so that its sum has one order."""
    threads = 32
    while threads < 256 and threads < length:
        threads *= 2
    return threads
