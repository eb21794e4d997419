"""The Numba telling on a GPU: every op against float64 or the spec, then its time at a model's shapes.

    python tools/device_numba.py check [--dtype float16] --out FOLDER
    python tools/device_numba.py time --out FOLDER

The checks and the clock are those of the raw telling (tools/device), so that the two can be read side by side.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numba
import numba_cuda
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cuda_kernels.registry import OPS, get
from tools.device import checks, matrix, timing


def numba_in_place_of_raw(op: str, telling: str) -> Callable[..., Any]:
    """The checks ask for `raw`; here they get `numba`."""
    return get(op, "numba" if telling == "raw" else telling)


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    versions = {"cupy": cupy.__version__, "numba": numba.__version__, "numba-cuda": numba_cuda.__version__}
    driver = str(cupy.cuda.runtime.driverGetVersion())
    return {"device": name, "driver": driver, "python": sys.version.split()[0], "numpy": np.__version__, **versions}


def raw_follows_numba(report: checks.Report) -> None:
    """On a stream of its own, captured in one graph: Numba writes, raw reads, Numba reads; no host wait in between."""
    weight, x = cupy.ones(4096, np.float32), cupy.full((300, 4096), 2.0, np.float32)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)

    def chain() -> Any:
        one = get("rms_norm", "numba")(x, weight, 0.0)
        two = get("linear", "raw")(one, x[:8])
        return get("rms_norm", "numba")(two, weight[:8].copy(), 0.0)

    with stream:
        chain()
        stream.begin_capture()
        out = chain()
        graph = stream.end_capture()
        out.fill(0)
        graph.launch(stream)
        stream.synchronize()
    report.truth("one stream: Numba, raw and Numba in one graph", bool(cupy.allclose(out, 1.0)))


def check(dtype: str | None) -> dict[str, Any]:
    """The matrix of tools/device/checks.py with the Numba telling, and the shared stream."""
    record = matrix.run((dtype,) if dtype else tuple(checks.DTYPES))
    report = checks.Report()
    raw_follows_numba(report)
    record["cells"] += report.cells
    record["failed"] += report.failed
    record["failures"] += report.failures
    return record


def times() -> dict[str, Any]:
    """Microseconds in a graph at the Qwen2.5-0.5B shape in bfloat16, and from Python without one."""
    lines: list[dict[str, Any]] = []
    model, rng = "Qwen2.5-0.5B", np.random.default_rng(0)
    timing.decode(model, "B=1", [307], lines)
    timing.decode(model, "B=32 uniform", [307] * 32, lines)
    timing.decode(model, "B=32 spread", rng.integers(16, 566, 32), lines)
    timing.prefill(model, 32, 275, lines)
    for rows in (1, 32):
        timing.linears(model, rows, lines)
        timing.others(model, rows, lines)
    timing.heads(model, 32, lines)
    timing.moves(model, lines)
    return {"lines": lines, "launch_us": launch_cost()}


def launch_cost() -> float:
    """Microseconds of Python per op call, the device kept idle by a tiny input."""
    x, weight = cupy.ones((1, 64), np.float32), cupy.ones(64, np.float32)
    run = get("rms_norm", "numba")
    run(x, weight, 1e-6)
    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    for _ in range(500):
        run(x, weight, 1e-6)
    spent = time.perf_counter() - began
    cupy.cuda.Device().synchronize()
    return round(spent / 500 * 1e6, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "time"))
    parser.add_argument("--dtype", choices=tuple(checks.DTYPES), help="check: this one only")
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON record")
    options = parser.parse_args()
    for module in (checks, matrix, timing):
        vars(module)["get"] = numba_in_place_of_raw
    began = time.perf_counter()
    record: dict[str, Any] = {"machine": machine(), "telling": "numba", "ops": list(OPS)}
    record[options.what] = check(options.dtype) if options.what == "check" else times()
    record["seconds"] = round(time.perf_counter() - began, 1)
    suffix = f"-{options.dtype}" if options.dtype else ""
    (options.out / f"numba-{options.what}{suffix}.json").write_text(json.dumps(record, indent=1) + "\n")
    failed = record[options.what].get("failed", 0)
    print(f"{options.what}: {failed} failed, {record['seconds']} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
