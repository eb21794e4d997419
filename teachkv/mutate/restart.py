"""Starting pytest anew: under one mutant for `--mutate-with`, or with one BLAS thread so that forking is safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from teachkv.mutate.errors import MutateError
from teachkv.mutate.registry import Registry

MARK = "TEACHKV_MUTATE_RESTARTED"
SYS_PATH = list(sys.path)  # as it was before pytest and the conftests added to it
BOOT = Path(__file__).with_name("boot.py")


def owns_process() -> bool:
    """Whether this process is `pytest ...`; inside another program a restart would run that program again."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return name in ("pytest", "py.test", "pytest.exe") or Path(sys.argv[0]).match("pytest/__main__.py")


def overlay_spec(registry: Registry, mutant_id: str) -> dict[str, Any]:
    """What boot.py reads: the rewritten text of each file that the mutant and its partner change."""
    texts = registry.rewrite(registry.with_partner(registry.mutant(mutant_id)))
    for path in texts:
        if path.suffix != ".py":
            raise MutateError(f"mutant '{mutant_id}' changes {path.name}; --mutate-with handles Python files only")
    return {"texts": {str(path): text for path, text in texts.items()}, "sys_path": SYS_PATH, "mutant": mutant_id}


def interpreter() -> list[str]:
    """This Python with the flags it was started with."""
    return [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]


def run_with_mutant(registry: Registry, mutant_id: str, args: list[str]) -> NoReturn:
    """Replaces this process by pytest under the mutant; `args` are pytest's own."""
    if not owns_process():
        raise MutateError("--mutate-with starts pytest anew; run it from the command line")
    folder = Path(tempfile.mkdtemp(prefix="mutate-with-"))
    spec = folder / "spec.json"
    spec.write_text(json.dumps(overlay_spec(registry, mutant_id)), encoding="utf-8")
    _flush()
    os.execve(sys.executable, [*interpreter(), str(BOOT), str(spec), *args], {**os.environ, MARK: "with"})


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def overlay_module() -> Any:
    """The overlay that boot.py installed in this process (with FINDER and SPEC), or None."""
    return sys.modules.get("_teachkv_mutate_overlay")
