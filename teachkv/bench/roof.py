"""How fast this machine moves bytes: the roof that decoding lies under, measured, not looked up."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def timed(work: Callable[[], Any], synchronize: Callable[[], None], repeats: int = 5) -> float:
    """Seconds of the quickest of `repeats` runs, after one that is thrown away (it compiles and touches pages)."""
    work()
    best = float("inf")
    for _ in range(repeats):
        synchronize()
        began = time.perf_counter()
        work()
        # guard[synchronized]: a launch returns at once; what was launched is paid for by whoever waits next
        # origin: cupy#7185
        # mutant[synchronized/launch-only]:
        #   - synchronize()
        #   + pass
        synchronize()
        best = min(best, time.perf_counter() - began)
    return best


def memory_roof(megabytes: int = 256) -> dict[str, Any]:
    """Bytes per second read by a sum over a large array, on the GPU if CuPy has one, else by one core of the CPU."""
    xp, synchronize, where = device()
    data = xp.ones(megabytes * 2**18, dtype=xp.float32)
    seconds = timed(lambda: data.sum(), synchronize)
    return {"where": where, "bytes_s": data.nbytes / seconds, "megabytes": megabytes}


def device() -> tuple[Any, Callable[[], None], str]:
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() > 0:
            name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
            return cupy, cupy.cuda.get_current_stream().synchronize, name
    except Exception:  # no CuPy, no driver, no device: all of them mean "no GPU here"
        pass
    return np, lambda: None, "CPU, one core"
