"""Arrays as the launchers see them: NumPy (host build) or CuPy (device), told apart by where they live."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from cuda_kernels.errors import KernelUnavailable

DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
POISON = "TEACHKV_POISON"
POISONED = os.environ.get(POISON) == "1"  # asking the environment takes longer than an allocation
FLOAT32, INT32 = np.dtype(np.float32), np.dtype(np.int32)


def on_device(array: Any) -> bool:
    """Is this a CuPy array? Asked without importing CuPy."""
    return not isinstance(array, np.ndarray) and "cupy" in sys.modules


@lru_cache(maxsize=64)
def type_name(dtype: Any) -> str:
    """The name of a NumPy dtype. NumPy spells it out anew each time it is asked, which takes as long as a launch."""
    return str(dtype.name)


def dtype_code(array: Any) -> int:
    """The TKV_DTYPE of an array's elements; TypeError for any other type."""
    name = type_name(array.dtype)
    if name not in DTYPES:
        raise TypeError(f"raw kernels store {', '.join(DTYPES)}; got {name}")
    return DTYPES[name]


def empty(like: Any, shape: tuple[int, ...], dtype: Any = None) -> Any:
    """A new array beside `like`. Host outputs, and device outputs if POISONED, start as NaN (or -1 bits)."""
    wanted = like.dtype if dtype is None else np.dtype(dtype)
    if not on_device(like):
        out = np.empty(shape, wanted)
        out.view(np.uint8).fill(0xFF)
        return out
    cupy = sys.modules["cupy"]
    fresh = cupy.empty(shape, wanted)
    if POISONED and fresh.size:
        fresh.view(cupy.uint8).fill(0xFF)
    return fresh


_counters: dict[int, Any] = {}


def zeroed_counters(like: Any, count: int) -> Any:
    """Counters beside `like` that are 0 now; a kernel that uses them leaves them 0. One stream at a time per device."""
    if not on_device(like):
        return np.zeros(count, np.uint32)
    cupy = sys.modules["cupy"]
    device = cupy.cuda.runtime.getDevice()
    found = _counters.get(device)
    if found is None or found.size < count:
        # The old ones stay alive: a captured graph may point to them.
        found = _counters[device] = cupy.zeros(max(4096, 2 * count), np.uint32)
        _retired.append(found)
    return found


_retired: list[Any] = []


def same(name: str, array: Any, shape: tuple[int, ...], dtype: Any = None) -> None:
    """Refuse an array whose shape or dtype a kernel would misread. Raises ValueError or TypeError."""
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
    if dtype is not None and array.dtype != dtype:
        raise TypeError(f"{name}: expected {np.dtype(dtype).name}, got {array.dtype}")


def integers(name: str, array: Any, length: int) -> None:
    """Refuse geometry that is not int32 [length]."""
    same(name, array, (length,), INT32)


def no_bias(bias: Any) -> None:
    """Raw attention takes no bias; dropping it would be a silent fault."""
    if bias is not None:
        raise KernelUnavailable("raw attention cannot apply an explicit bias; use the reference backend for this mask")
