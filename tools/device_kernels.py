"""Raw kernels on a device: correctness, bits, big offsets and time, as one JSON record.

python tools/device_kernels.py check --out DIR [--jobs 8]   every op, dtype and shape against float64; bits; big offsets
python tools/device_kernels.py tiny                         a few launches of everything, for compute-sanitizer
python tools/device_kernels.py time --out DIR               microseconds and GB/s or TFLOP/s at two models' shapes
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import cupy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.device import matrix, timing
from tools.device.checks import DTYPES
from tools.device.engines import machine
from tools.device.tiny import tiny


def shared_check(dtypes: tuple[str, ...], jobs: int) -> dict[str, Any]:
    """The check in `jobs` processes. Raises RuntimeError if one of them dies."""
    with tempfile.TemporaryDirectory() as folder:
        one_thread = os.environ | {
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }  # the parts share the processors
        command = [sys.executable, __file__, "check", "--dtype", *dtypes, "--out", folder, "--part"]
        parts = [subprocess.Popen([*command, str(part), str(jobs)], env=one_thread) for part in range(jobs)]
        codes = [part.wait() for part in parts]
        if any(code > 1 or code < 0 for code in codes):
            raise RuntimeError(f"a part of the check ended with {codes}")
        return matrix.merged([json.loads(file.read_text())["check"] for file in Path(folder).glob("*.json")])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "tiny", "time", "variants"))
    parser.add_argument("--dtype", choices=tuple(DTYPES), nargs="+", default=tuple(DTYPES), help="check: these only")
    parser.add_argument("--jobs", type=int, default=1, help="check: in so many processes")
    parser.add_argument("--part", type=int, nargs=2, metavar=("I", "N"), help="check: part I of N of the jobs")
    parser.add_argument("--out", type=Path, default=None, help="folder for the JSON record")
    options = parser.parse_args()
    if options.what == "tiny":
        cupy.cuda.set_allocator(None)  # one allocation per array: the checker sees every end
        tiny()
        print("tiny: done")
        return 0
    name = f"kernels-{options.what}" + (f"-{options.part[0]}" if options.part else "")
    if options.what == "check" and options.jobs > 1:
        found = shared_check(tuple(options.dtype), options.jobs)
    elif options.what == "check":
        found = matrix.run(tuple(options.dtype), *(options.part or (0, 1)))
    else:
        found = {"time": timing.run, "variants": timing.tile_variants}[options.what]()
    if options.out is not None:
        record = machine() | {options.what: found}
        (options.out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    failed = found.get("failed", 0)
    print(f"{name}: {found.get('cells', '')} cells, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
