"""`python -P boot.py JOB`: one measuring process.

Run as a script, never imported. The engine comes from the tree that the job names (another commit's worktree, perhaps),
under a mutant if the job names one; the harness is always this one, so that all arms are measured by the same code.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent


def module_from(name: str, path: Path, *, package: bool = False) -> ModuleType:
    """The file at `path` as the module `name`, whatever else goes by that name."""
    places = [str(path.parent)] if package else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> int:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.path.insert(0, job["root"])
    if job["texts"]:
        overlay = module_from("_teachkv_bench_overlay", HERE.parent / "mutate" / "overlay.py")
        overlay.OverlayFinder(job["texts"]).install()
    import teachkv

    teachkv.bench = module_from("teachkv.bench", HERE / "__init__.py", package=True)
    from teachkv.bench.worker import work

    return work(job)


if __name__ == "__main__":
    sys.exit(main())
