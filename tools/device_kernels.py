"""Raw kernels on a device: correctness, bits, big offsets and time, as one JSON record.

python tools/device_kernels.py check --out DIR      every op, dtype and shape against float64; bits; offsets past 2^31
python tools/device_kernels.py tiny                 a few launches of everything, for compute-sanitizer
python tools/device_kernels.py time --out DIR       microseconds and GB/s or TFLOP/s at two models' shapes
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import cupy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.device import checks, timing


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    versions = {
        "cupy": cupy.__version__,
        "cuda": str(runtime.runtimeGetVersion()),
        "driver": str(runtime.driverGetVersion()),
    }
    return {"device": name, "python": sys.version.split()[0], **versions}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "tiny", "time", "variants"))
    parser.add_argument("--dtype", choices=tuple(checks.DTYPES), help="check: this one only")
    parser.add_argument("--out", type=Path, default=None, help="folder for the JSON record")
    options = parser.parse_args()
    if options.what == "tiny":
        cupy.cuda.set_allocator(None)  # one allocation per array: the checker sees every end
        checks.tiny()
        print("tiny: done")
        return 0
    parts = {"check": lambda: checks.run(options.dtype), "time": timing.run, "variants": timing.tile_variants}
    record = {"machine": machine(), options.what: parts[options.what]()}
    if options.out is not None:
        (options.out / f"kernels-{options.what}{'-' + options.dtype if options.dtype else ''}.json").write_text(
            json.dumps(record, indent=1)
        )
    failed = record[options.what].get("failed", 0)
    print(f"{options.what}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
