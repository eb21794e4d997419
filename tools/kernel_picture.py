"""`python -m tools.kernel_picture OP`: who reads and writes what in a tiny call, as text and as a page to step through.

The page needs nothing from anywhere; open it in a browser. Run it before and after a change of a kernel.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from html import escape
from pathlib import Path

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.registry import OPS
from cuda_kernels.trace import KernelTrace, as_svg, as_text, order_text, trace_kernel
from teachkv.observe.export import page
from teachkv.observe.scenes import Scene, thread_scene
from tools.kernel_examples import examples


def busiest(trace: KernelTrace, arrays: list[str]) -> Scene:
    """The turns of the threads of one block: the one with most accesses to these arrays."""
    wanted = [t for one in trace.launches for t in one.touches if one.arrays[t.array].name in arrays]
    block = max(Counter(touch.block for touch in wanted).items(), key=lambda item: (item[1], -item[0]))[0]
    return thread_scene(trace.to_dict(), [block], arrays)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("op", choices=OPS)
    parser.add_argument("--telling", choices=("numba", "raw"), default="numba")
    parser.add_argument("--out", type=Path, help="default: build/OP.html")
    args = parser.parse_args()
    make, arrays = examples()[args.op]
    try:
        trace = trace_kernel(args.op, make(), args.telling)
    except KernelUnavailable as error:
        print(f"kernel_picture: {error}", file=sys.stderr)
        return 2
    out: Path = args.out or Path("build") / f"{args.op}.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    present = {array.name for launch in trace.launches for array in launch.arrays}
    drawn = [name for name in arrays if name in present]
    above = "".join(as_svg(trace, name) for name in drawn) + f"<pre>{escape(order_text(trace))}</pre>"
    title = f"{args.op}, told in {args.telling}"
    out.write_text(page(busiest(trace, drawn), title, above), encoding="utf-8")
    print(as_text(trace), order_text(trace), "", f"{out}: open it in a browser; the arrow keys step", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
