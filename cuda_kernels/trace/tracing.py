"""Runs one op under a recorder: the stepper for Numba, the host build for raw kernels."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuda_kernels.registry import get
from cuda_kernels.trace.record import ArrayTrace, KernelTrace, LaunchTrace, LiveRun, Touch

SCRATCH = "float32"


def trace_kernel(op: str, args: Sequence[Any] | Mapping[str, Any], telling: str = "numba") -> KernelTrace:
    """Call `op` once on NumPy arguments (by position or by name) and tell every access to its arrays.

    The arguments are copied, so nothing of the caller's changes. Meant for tiny shapes: a record per access is kept.
    Raises ValueError for another telling, KernelUnavailable where the telling cannot run here.
    """
    if telling not in ("numba", "raw"):
        raise ValueError(f"telling {telling!r}: only 'numba' and 'raw' have threads to trace")
    signature = inspect.signature(get(op, "spec"))
    bound = signature.bind(**args) if isinstance(args, Mapping) else signature.bind(*args)
    fresh = {id(a): a.copy() for a in bound.arguments.values() if isinstance(a, np.ndarray)}
    named = {name: fresh.get(id(value), value) for name, value in bound.arguments.items()}
    launches = _numba(op, named) if telling == "numba" else _raw(op, named)
    return KernelTrace(op, telling, launches, live_runs(named))


def live_runs(named: Mapping[str, Any]) -> tuple[LiveRun, ...]:
    """From the geometry of an attention op; none for other ops."""
    if "end" not in named:
        return ()
    row, end, pad = named["row"], named["end"], named.get("lead_pad")
    pads = [0] * len(row) if pad is None else [max(0, int(p)) for p in pad]
    return tuple(LiveRun(int(r), p, int(e)) for r, p, e in zip(row, pads, end, strict=True) if r >= 0)


def _numba(op: str, named: Mapping[str, Any]) -> tuple[LaunchTrace, ...]:
    from cuda_kernels.numba_tools.stepper import recording

    with recording() as recorded:
        get(op, "numba")(**named)
    return tuple(
        LaunchTrace(
            launch.kernel,
            launch.grid,
            launch.block,
            tuple(ArrayTrace(name, shape, dtype) for name, shape, dtype, _ in launch.arrays),
            tuple(Touch(*access, 1) for access in launch.accesses),
        )
        for launch in recorded
    )


def _raw(op: str, named: Mapping[str, Any]) -> tuple[LaunchTrace, ...]:
    from cuda_kernels.host.module import recording

    with recording() as recorded:
        result = get(op, "raw")(**named)
    known = {name: value for name, value in named.items() if isinstance(value, np.ndarray)}
    if isinstance(result, np.ndarray):
        known |= {"out": result, "tokens": known.get("tokens", result)}
    return tuple(_launch(*launch, known) for launch in recorded)


def _launch(
    kernel: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    names: tuple[str, ...],
    accesses: Any,
    known: Mapping[str, Any],
) -> LaunchTrace:
    """The host build counts bytes; here they become elements. Scratch of the launcher is float32 on one axis."""
    arrays, sizes = [], []
    for number, name in enumerate(names):
        mine = accesses[accesses["array"] == number]
        if name in known:
            arrays.append(ArrayTrace(name, known[name].shape, str(known[name].dtype)))
            sizes.append(known[name].itemsize)
        else:
            sizes.append(np.dtype(SCRATCH).itemsize)
            length = int((mine["offset"] + mine["bytes"]).max()) // sizes[-1] if len(mine) else 0
            arrays.append(ArrayTrace(name, (length,), SCRATCH))
    touches = tuple(
        Touch(
            int(a["block"]), int(a["thread"]), int(a["array"]), bool(a["write"]),
            int(a["offset"]) // sizes[a["array"]], max(1, int(a["bytes"]) // sizes[a["array"]]),
        )
        for a in accesses
    )  # fmt: skip
    return LaunchTrace(kernel, grid, block, tuple(arrays), touches)
