"""Writes docs/kernels/<op>.md and an index: what an op means, its three tellings, who reads and writes what.

    python tools/kernel_pages.py [docs/kernels]

Everything on a page comes from the op's folder, from a traced tiny call, and from the records in docs/evidence.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cuda_kernels.errors import KernelUnavailable
from cuda_kernels.registry import OPS
from cuda_kernels.trace import as_svg, order_text, trace_kernel
from teachkv.observe.export import fragment
from tools.kernel_examples import examples
from tools.kernel_figures import EVIDENCE, figures, read_records
from tools.kernel_picture import busiest
from tools.rungs import rungs

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "cuda_kernels"
SHARED = ("attention", "choice", "norm", "product", "attention_spec")
TELLINGS = {
    "spec": ("Meaning (NumPy)", "spec.py"),
    "numba": ("Numba", "numba_kernel.py"),
    "raw": ("CUDA C++", "raw_kernel.cu"),
}
_INCLUDE = re.compile(r'#include "(common/\w+\.cuh)"')
_MUTANT = re.compile(r"^\s*(#|//)\s+(mutant\[|[-+]( |$))")


def page(op: str, records: list[dict[str, Any]]) -> str:
    """The page of one op, in Markdown for Material (content tabs, details)."""
    folder = KERNELS / op
    module = ast.parse((folder / "spec.py").read_text())
    function = next(n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == op)
    lines = [
        *("---", "hide: [navigation, toc]", "---", ""),  # the width belongs to the three tellings
        f"# {op}",
        "",
        meaning(module),
        "",
        "```text",
        ast.get_docstring(function) or "",
        "```",
        "",
        "[The letters of the shapes](../contributing.md#house-rules)",
        "",
    ]
    lines += ["## Three tellings", "", '<div class="tkv-side" markdown>', "", *tabs(folder), "</div>", ""]
    lines += [
        *shared(folder),
        "## Who reads and writes what",
        "",
        "A tiny call, without a GPU. Threads of one block downwards, columns of a cache (or the numbers of another",
        "array) to the right.",
        "",
        *pictures(op),
        *figures(op, records),
        *rungs(op, records),
    ]
    return "\n".join(lines) + "\n"


def meaning(module: ast.Module) -> str:
    """What the op does: the docstring of its spec without the op's name in front."""
    text = (ast.get_docstring(module) or "").partition(": ")[2]
    return text[:1].upper() + text[1:]


def tabs(folder: Path) -> Iterator[str]:
    """One content tab per telling."""
    for title, name in TELLINGS.values():
        yield f'=== "{title}"'
        yield ""
        yield from indented(fenced((folder / name).read_text(), name))
        yield ""


def shared(folder: Path) -> Iterator[str]:
    """What the tellings take from elsewhere, folded away."""
    python = (folder / "spec.py").read_text() + (folder / "numba_kernel.py").read_text()
    used = dict.fromkeys(re.findall(r"from cuda_kernels\.(common|numba_tools)\.(\w+) import", python))
    files = [KERNELS / package / f"{name}.py" for package, name in used if name in SHARED]
    files += [KERNELS / name for name in _INCLUDE.findall((folder / "raw_kernel.cu").read_text())]
    for file in files:
        yield f'??? note "{file.relative_to(KERNELS)}"'
        yield ""
        yield from indented(fenced(file.read_text(), file.name))
        yield ""


def fenced(text: str, name: str) -> list[str]:
    """Source as a code block. Guards keep their reason; the rewrites of mutants belong to the exercises, not here."""
    language = "python" if name.endswith(".py") else "cpp"
    kept, in_card = [], False
    for line in text.rstrip().splitlines():
        stripped = line.strip()
        in_card = stripped.startswith(("#", "//")) and (in_card or "guard[" in stripped or "mutant[" in stripped)
        if not (in_card and _MUTANT.match(line)):
            kept.append(line)
    return [f"````{language}", *kept, "````"]


def indented(lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {line}" if line else ""


def pictures(op: str) -> Iterator[str]:
    """One tab per telling with the pictures of its example; a telling that cannot run here says why."""
    make, arrays = examples()[op]
    for telling in ("numba", "raw"):
        yield f'=== "{TELLINGS[telling][0]}"'
        yield ""
        try:
            trace = trace_kernel(op, make(), telling)
        except KernelUnavailable as error:
            yield f"    Not drawn on the machine that built this page: {str(error).splitlines()[0]}"
            yield ""
            continue
        present = {array.name for launch in trace.launches for array in launch.arrays}
        for name in (name for name in arrays if name in present):
            yield from indented(["<div>", *as_svg(trace, name).splitlines(), "</div>", ""])
        yield from indented(["```text", *order_text(trace).splitlines(), "```", ""])
        yield "    Turn by turn, in the block that touches most (arrow keys step):"
        yield ""
        yield from indented([*fragment(busiest(trace, [a for a in arrays if a in present])).splitlines(), ""])


def index(ops: tuple[str, ...]) -> str:
    """The list of pages."""
    lines = [
        "# Kernels",
        "",
        "Every operation is told three times with one signature: in NumPy, in Numba, in CUDA C++.",
        "",
    ]
    for op in ops:
        lines.append(f"- [{op}]({op}.md): {meaning(ast.parse((KERNELS / op / 'spec.py').read_text())).splitlines()[0]}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "kernels")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    records = read_records(EVIDENCE)
    for op in OPS:
        (folder / f"{op}.md").write_text(page(op, records))
    (folder / "index.md").write_text(index(OPS))
    print(f"{len(OPS)} pages and an index in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
