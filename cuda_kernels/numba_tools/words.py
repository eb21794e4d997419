"""Words of the Numba kernels that plain Python and the device spell differently.

Each is a Python function (its meaning, used wherever a kernel runs without a GPU) and an overload for the compiler.
bfloat16 arrays reach a device kernel as uint16, the same bits: a bfloat16 is the upper half of a float32.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, types

BFLOAT16 = types.uint16
NAN_BITS = 0x7FC0


def widen(x: Any) -> np.float32:
    """An element of an activation, weight or cache as float32, exactly."""
    return np.float32(x)


def narrow(y: Any, like: Any) -> Any:
    """The float32 y as an element of the array `like`, rounded to nearest even."""
    return like.dtype.type(y)


def exp32(x: Any) -> np.float32:
    """e to the x in float32; exp32(-inf) is 0, and far above zero it is inf and no error."""
    y: np.float32 = np.exp(np.float32(x))
    return y


def bits_of(x: Any) -> Any:
    """The 32 bits of a float32 as an int32: for values of one sign, their order is the order of the values."""
    return np.float32(x).view(np.int32)


def float_of(bits: Any) -> np.float32:
    """The float32 of 32 bits, the inverse of bits_of."""
    return np.int32(bits).view(np.float32)


def _overloads() -> None:
    """Tell the compiler the same. Not wanted, and not there, in Numba's own simulator."""
    from numba.cuda import libdevice
    from numba.cuda.extending import overload

    def tell(word: Callable[..., Any], code_for: Callable[..., Any]) -> None:
        # Numba compares the signatures of both; the code it compiles has no annotations.
        code_for.__annotations__.clear()
        overload(word)(code_for)

    def widen_code(x: Any) -> Callable[..., Any]:
        if x == BFLOAT16:
            return lambda x: libdevice.int_as_float(np.int32(x) << np.int32(16))
        return lambda x: np.float32(x)

    def narrow_code(y: Any, like: Any) -> Callable[..., Any]:
        if like.dtype == BFLOAT16:
            return _to_bfloat16(libdevice)
        if like.dtype == types.float16:
            return lambda y, like: np.float16(y)
        return lambda y, like: np.float32(y)

    def exp32_code(x: Any) -> Callable[..., Any]:
        return lambda x: math.exp(np.float32(x))

    def bits_of_code(x: Any) -> Callable[..., Any]:
        return lambda x: libdevice.float_as_int(np.float32(x))

    def float_of_code(bits: Any) -> Callable[..., Any]:
        return lambda bits: libdevice.int_as_float(np.int32(bits))

    tell(widen, widen_code)
    tell(narrow, narrow_code)
    tell(exp32, exp32_code)
    tell(bits_of, bits_of_code)
    tell(float_of, float_of_code)


def _to_bfloat16(libdevice: Any) -> Callable[..., Any]:
    def round_to_even(y, like):  # type: ignore[no-untyped-def]
        if y != y:
            return np.uint16(NAN_BITS)
        bits = np.int64(libdevice.float_as_int(np.float32(y))) & 0xFFFFFFFF
        # Half of the last kept bit, and one less than half where that bit is even: a tie then goes to even.
        return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)

    return round_to_even


def simulated() -> bool:
    """Was NUMBA_ENABLE_CUDASIM set when Numba was imported? Then no kernel of this process can reach a GPU."""
    from numba.cuda.core import config

    return bool(config.ENABLE_CUDASIM)


def small_grids_are_meant() -> None:
    """One decoding row is a handful of blocks. Numba warns of every such launch; a caller's own setting stays."""
    from numba.cuda.core import config

    if "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS" not in os.environ:
        config.CUDA_LOW_OCCUPANCY_WARNINGS = 0


small_grids_are_meant()
if not simulated():
    _overloads()

__all__ = ["bits_of", "cuda", "exp32", "float_of", "narrow", "simulated", "widen"]
