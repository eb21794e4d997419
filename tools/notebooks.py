"""`python tools/notebooks.py build|check [NAME ...]`: the lessons, from their text sources to notebooks with outputs.

`notebooks/src/NN_name.py` (jupytext, percent format) is what people edit; `notebooks/NN_name.ipynb` is what is shown.
`build` runs a source in a new kernel and saves it with its outputs. `check` runs it too, and what is not as saved is a
fault: a cell that fails, code that differs from the source, an output that differs (but for cells tagged "varies").
Two run at a time.
Neither needs a GPU. Text sources, outputs and cell ids are plain and repeatable, so a difference means something.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

nbformat: Any = importlib.import_module("nbformat")  # only half of it is typed

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
JOBS = 2  # at a time
PLAYER = r'<(script|style) class="tkv-code">.*?</\1>'
LIMIT = 120  # seconds for one notebook on a laptop


def sources(names: list[str]) -> list[Path]:
    """The sources whose names begin with one of `names` (all without names), in order."""
    found = [p for p in sorted((FOLDER / "src").glob("*.py")) if not names or p.stem.startswith(tuple(names))]
    if not found:
        raise SystemExit(f"notebooks: no source in {FOLDER / 'src'} begins with {', '.join(names)}")
    return found


def read(source: Path) -> Any:
    """The notebook of a text source, not run. Cell ids count, so that building twice gives the same file."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:02}"
    language = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python", "pygments_lexer": "ipython3"}
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": language}
    )
    return notebook


def run(source: Path) -> tuple[Any, float]:
    """The notebook with its outputs, and how many seconds it took. Raises CellExecutionError."""
    notebook = read(source)
    os.environ.update(TEACHKV_STILL="1", PYTHONHASHSEED="0", OPENBLAS_NUM_THREADS="1")
    for name in ("CI", "BUILD_NUMBER"):  # with one of them pytest prints more than a reader sees
        os.environ.pop(name, None)
    began = time.monotonic()
    client = NotebookClient(
        notebook, timeout=LIMIT, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info.pop("version", None)
    notebook.metadata["language_info"] = read(source).metadata["language_info"]
    return notebook, time.monotonic() - began


def build(source: Path) -> list[str]:
    try:
        notebook, seconds = run(source)
    except CellExecutionError as error:
        return [f"{source.stem}: {str(error)[-1500:]}"]
    (FOLDER / f"{source.stem}.ipynb").write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    print(f"{source.stem}: {seconds:.1f} s, {len(notebook.cells)} cells")
    return list(form_faults(source.stem, notebook, seconds))


def check(source: Path) -> list[str]:
    """Faults of the saved notebook against a fresh run."""
    saved_at = FOLDER / f"{source.stem}.ipynb"
    if not saved_at.exists():
        return [f"{source.stem}: not built; python tools/notebooks.py build {source.stem}"]
    saved = nbformat.read(saved_at, as_version=4)
    if [c.source for c in saved.cells] != [c.source for c in read(source).cells]:
        return [f"{source.stem}: the saved notebook is not of this source; build it again"]
    try:
        notebook, seconds = run(source)
    except CellExecutionError as error:
        return [f"{source.stem}: {str(error)[-1500:]}"]
    faults = list(form_faults(source.stem, notebook, seconds))
    for number, (old, new) in enumerate(zip(saved.cells, notebook.cells, strict=True)):
        if "varies" not in new.metadata.get("tags", []) and shown(old) != shown(new):
            faults.append(f"{source.stem}: cell {number} shows something else than saved; build it again if meant")
            faults += difference(shown(old), shown(new))
    print(f"{source.stem}: {seconds:.1f} s")
    return faults


def form_faults(name: str, notebook: Any, seconds: float) -> Iterator[str]:
    """What every lesson owes: time, and a last cell that asserts."""
    if seconds > LIMIT:
        yield f"{name}: took {seconds:.0f} s, the limit is {LIMIT}"
    if "assert " not in notebook.cells[-1].source:
        yield f"{name}: the last cell asserts nothing"
    if not any("## Exercise" in cell.source for cell in notebook.cells):
        yield f"{name}: no exercise"


def shown(cell: Any) -> list[str]:
    """The lines that a reader sees of a cell's outputs. The player's own code is not the lesson's."""
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        texts.append(output.get("text", "") or data.get("text/html", "") or data.get("text/plain", ""))
    return re.sub(PLAYER, "", "".join(texts), flags=re.DOTALL).splitlines()


def difference(saved: list[str], fresh: list[str]) -> list[str]:
    """The first lines of what differs."""
    lines = list(difflib.unified_diff(saved, fresh, "saved", "fresh", n=0, lineterm=""))
    return [f"    {line[:200]}" for line in lines[2:12]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "check"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    with ThreadPoolExecutor(JOBS) as pool:
        faults = [
            fault
            for found in pool.map(build if args.what == "build" else check, sources(args.names))
            for fault in found
        ]
    print(*faults, sep="\n", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
