"""One launch, straight through the driver: in a prefill of many small kernels the host is what one waits for.

early: the kernel may begin while the one before it on the stream still runs (programmatic dependent launch). It must
wait_for_previous() (common/chain.cuh) before it touches what earlier kernels write. A graph that records such launches
keeps the overlap.
"""

from __future__ import annotations

import ctypes
import functools
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


def launch(function: int, grid: Size, block: Size, shared: int, arguments: Sequence[Any], *, early: bool) -> None:
    """Launch the driver's `function` on CuPy's current stream. Arguments: arrays, None or typed scalars.

    Raises RuntimeError with the driver's error number.
    """
    config = _Config(grid, block, shared, cupy.cuda.get_current_stream().ptr, _EARLY, early)
    count = len(arguments)
    words = (ctypes.c_uint64 * count)(*map(word, arguments))
    first = ctypes.addressof(words)
    places = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
    status = _launch()(ctypes.byref(config), function, places, None)
    if status != 0:
        raise RuntimeError(
            f"cuLaunchKernelEx gave error {status} for grid {grid}, block {block}, {shared} bytes shared"
        )


def word(argument: Any) -> int:
    """One kernel parameter in 64 bits, of which the kernel reads as many as it declares: an address, or a number."""
    if argument is None:
        return 0
    if isinstance(argument, cupy.ndarray):
        return int(argument.data.ptr)
    return int.from_bytes(argument.tobytes(), "little")
