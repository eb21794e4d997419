"""Memory of one thread that is kept from call to call. Fresh memory has to be mapped page by page: on a virtual machine
that took 5 us for 4 KB, ten times what it takes to fill them."""

from __future__ import annotations

import os
import threading
from math import prod

import numpy as np
import numpy.typing as npt

from cuda_kernels.common.types import Array

POISON = "TEACHKV_POISON"


class Scratch(threading.local):
    """Arrays by name. What the last user of a name wrote is gone with the next call for it on the same thread."""

    def __init__(self) -> None:
        self._flat: dict[str, Array] = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
        """An array of that shape with whatever it holds."""
        size, flat = prod(shape), self._flat.get(name)
        if flat is None or flat.size < size or flat.dtype != dtype:
            flat = self._flat[name] = np.empty(size, dtype)
        array = flat[:size].reshape(shape)
        if os.environ.get(POISON) == "1":
            array.fill(np.nan)  # who reads what was not written is found out
        return array


scratch = Scratch()
