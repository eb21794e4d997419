"""A launch that lets a kernel begin while the one before it on the stream still runs (programmatic dependent launch).

CuPy has no word for it, so the driver is called directly. The kernel must wait_for_previous() (common/chain.cuh) before
it touches what earlier kernels write. A graph that records such launches keeps the overlap.
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


@functools.cache
def _driver() -> Any:
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuLaunchKernelEx.argtypes = [ctypes.c_void_p] * 4
    return driver


def launch_early(function: int, grid: Size, block: Size, shared: int, arguments: Sequence[Any]) -> None:
    """Launch the driver's `function` on CuPy's current stream. Arguments: arrays, None or typed scalars."""
    attribute = _Attribute(OVERLAP, 0, 1)
    stream = cupy.cuda.get_current_stream().ptr
    config = _Config(grid, block, shared, stream, ctypes.pointer(attribute), 1)
    cells = [_cell(argument) for argument in arguments]
    places = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
    status = _driver().cuLaunchKernelEx(ctypes.byref(config), function, places, None)
    if status != 0:
        raise RuntimeError(
            f"cuLaunchKernelEx gave error {status} for grid {grid}, block {block}, {shared} bytes shared"
        )


def _cell(argument: Any) -> Any:
    """The bytes of one kernel parameter: an address, or a NumPy scalar as it is."""
    if argument is None:
        return ctypes.c_uint64(0)
    if isinstance(argument, cupy.ndarray):
        return ctypes.c_uint64(argument.data.ptr)
    return ctypes.create_string_buffer(argument.tobytes(), 8)
