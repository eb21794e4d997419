"""The heaviest kernels of a decode step and of a prefill, one launch each, for a profiler that counts in hardware.

    ncu --clock-control none --profile-from-start off --set full -f -o FILE python -m tools.device_profile
    python -m tools.device_profile --list        their names, in the order of the launches

The shape is Qwen2.5-0.5B's in bfloat16.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

NAMES = (
    "gate_up, 1 row",
    "down, 1 row",
    "lm_head, 1 row",
    "gate_up, 32 rows",
    "down, 32 rows",
    "decode attention, 128 rows of 307",
    "linear [4864, 896], 128 rows",
    "linear [896, 4864], 128 rows",
    "linear [4864, 896], 8800 rows",
    "prefill attention, 32 x 275",
)


def launches() -> list[Callable[[], Any]]:
    """One call for each of NAMES."""
    import cupy

    from cuda_kernels.registry import get
    from tools.device.timing import random
    from tools.device_decode import HIDDEN, WIDTH, Layers

    one, many, all128 = Layers(cupy, 1), Layers(cupy, 32), Layers(cupy, 128)
    linear = get("linear", "raw")
    up, down = all128.layers[1]["up"], all128.layers[1]["down"]
    wide, flat = random(128, WIDTH), random(8800, HIDDEN)
    q, kv = random(8800, 14, 64), [random(32, 2, 275, 64) for _ in range(2)]
    row, cu = cupy.arange(32, dtype=np.int32), cupy.arange(33, dtype=np.int32) * 275
    end = cupy.full(32, 275, np.int32)
    return [
        partial(one.gate_up, 1),
        partial(one.down, 1),
        partial(one.lm_head, 1),
        partial(many.gate_up, 1),
        partial(many.down, 1),
        partial(all128.attention, 1),
        partial(linear, all128.x, up),
        partial(linear, wide, down),
        partial(linear, flat, up),
        partial(get("attention_prefill", "raw"), q, *kv, cu, row, end, None, None, 0.125),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    if parser.parse_args().list:
        print(*NAMES, sep="\n")
        return
    import cupy

    calls = launches()
    for call in calls:
        call()
    cupy.cuda.Device().synchronize()
    cupy.cuda.profiler.start()
    for call in calls:
        call()
    cupy.cuda.Device().synchronize()
    cupy.cuda.profiler.stop()


if __name__ == "__main__":
    main()
