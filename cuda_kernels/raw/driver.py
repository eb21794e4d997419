"""One launch, straight through the driver: in a prefill of many small kernels the host is what one waits for.

early: the kernel may begin while the one before it on the stream still runs (programmatic dependent launch). It must
wait_for_previous() (common/chain.cuh) before it touches what earlier kernels write. A graph that records such launches
keeps the overlap.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from typing import Any

import cupy

from cuda_kernels.raw.limits import Size

OVERLAP = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


_EARLY = ctypes.pointer(_Attribute(OVERLAP, 0, 1))


@functools.cache
def _launch() -> Any:
    found = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    found.argtypes = [ctypes.c_void_p] * 4
    return found


class Launch:
    """A launch of the driver's `function`, all written down but the addresses of its arrays and the stream.

    arrays: how many there are; typed scalars follow them.
    """

    def __init__(
        self, function: int, grid: Size, block: Size, shared: int, arrays: int, scalars: Sequence[Any], *, early: bool
    ) -> None:
        count = arrays + len(scalars)
        self._said = f"grid {grid}, block {block}, {shared} bytes shared"
        self._function, self._arrays = function, arrays
        self._config = _Config(grid, block, shared, None, _EARLY, early)
        self._words = (ctypes.c_uint64 * count)(*(0,) * arrays, *map(word, scalars))
        first = ctypes.addressof(self._words)
        self._places = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
        self._told = ctypes.byref(self._config)
        self._lock = threading.Lock()  # the driver reads the words before it returns, and other threads may launch too

    def __call__(self, arrays: Sequence[Any]) -> None:
        """Launch on CuPy's current stream. Raises RuntimeError with the driver's error number."""
        addresses = [0 if array is None else array.data.ptr for array in arrays]
        with self._lock:
            self._words[: self._arrays] = addresses
            self._config.stream = cupy.cuda.get_current_stream().ptr
            status = _launch()(self._told, self._function, self._places, None)
        if status != 0:
            raise RuntimeError(f"cuLaunchKernelEx gave error {status} for {self._said}")


def word(scalar: Any) -> int:
    """A typed scalar in 64 bits, of which the kernel reads as many as it declares."""
    return int.from_bytes(scalar.tobytes(), "little")
