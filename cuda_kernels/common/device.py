"""Is there a GPU, and which array module do the device backends use here? Asked once, answered with a reason."""

from __future__ import annotations

import ctypes
import importlib
import sys
from functools import lru_cache
from types import ModuleType

import numpy as np

from cuda_kernels.errors import KernelUnavailable


def driver() -> ctypes.CDLL | None:
    """The NVIDIA driver, if this machine has one. No CUDA package is needed to ask it."""
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


@lru_cache(maxsize=1)
def gpu() -> tuple[bool, str]:
    """(True, name of the device) or (False, why there is none)."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        if driver() is None:
            return False, "no NVIDIA driver"
        return False, f"CuPy cannot be imported: {error}; install the extra 'cuda12' or 'cuda13'"
    try:
        if cupy.cuda.runtime.getDeviceCount() < 1:
            return False, "CuPy finds no GPU"
        properties = cupy.cuda.runtime.getDeviceProperties(0)
    except Exception as error:  # a driver that is missing or too old has many exceptions
        return False, f"CuPy cannot use the GPU: {error}"
    return True, properties["name"].decode()


def array_module(backend: str) -> tuple[ModuleType, str]:
    """(cupy or numpy, a note for the path line). Raises KernelUnavailable where the backend cannot run at all.

    Without a GPU `raw` runs its host build and `numba` its stepper, both on NumPy arrays: slow, for tiny shapes.
    """
    present, what = gpu()
    if present:
        return importlib.import_module("cupy"), what
    if backend == "raw":
        return np, "host build on the CPU, for tiny shapes"
    if backend == "numba":
        return np, "Numba kernels as plain Python on the CPU, for tiny shapes"
    raise KernelUnavailable(f"backend {backend!r} needs a GPU: {what}")
