"""Starting pytest anew: under one mutant for `--mutate-with`, or with one BLAS thread so that forking is safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from teachkv.mutate.errors import MutateError

if TYPE_CHECKING:
    from teachkv.mutate.registry import Registry

MARK = "TEACHKV_MUTATE_RESTARTED"
SYS_PATH = list(sys.path)  # as it was before pytest and the conftests added to it
BOOT = Path(__file__).with_name("boot.py")
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def owns_process() -> bool:
    """Whether this process is `pytest ...`; inside another program a restart would run that program again."""
    program = Path(sys.argv[0])
    return program.name in ("pytest", "py.test", "pytest.exe") or program.match("pytest/__main__.py")


def interpreter() -> list[str]:
    """This Python with the flags it was started with."""
    return [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]


def run_with_mutant(registry: Registry, mutant_id: str, args: list[str]) -> NoReturn:
    """Replaces this process by pytest under the mutant (and its partner); `args` are pytest's own."""
    if not owns_process():
        raise MutateError("--mutate-with starts pytest anew; run it from the command line")
    texts = registry.rewrite(registry.with_partner(registry.mutant(mutant_id)))
    for path in texts:
        if path.suffix != ".py":
            raise MutateError(f"mutant '{mutant_id}' changes {path.name}; --mutate-with handles Python files only")
    spec = Path(tempfile.mkdtemp(prefix="mutate-with-")) / "spec.json"
    write_spec(spec, texts, mutant=mutant_id, once=True)
    _replace([*interpreter(), str(BOOT), str(spec), *args], dict(os.environ))


def run_single_threaded() -> None:
    """Replaces this process by the same pytest with one BLAS thread and a fixed hash seed, unless it is that one.

    NumPy's OpenBLAS starts its threads at import, and a process with threads must not fork.
    """
    if os.environ.pop(MARK, None) or not owns_process() or overlay_module() is not None:
        return
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), MARK: "1"}
    environment.setdefault("PYTHONHASHSEED", "0")
    _replace([sys.executable, *sys.orig_argv[1:]], environment)


def write_spec(path: Path, texts: dict[Path, str], **more: Any) -> None:
    """The file boot.py reads."""
    spec = {"texts": {str(file): text for file, text in texts.items()}, "sys_path": SYS_PATH, **more}
    path.write_text(json.dumps(spec), encoding="utf-8")


def overlay_module() -> Any:
    """The overlay that boot.py installed in this process (with FINDER and SPEC), or None."""
    return sys.modules.get("_teachkv_mutate_overlay")


def boot_spec() -> dict[str, Any]:
    """What boot.py was given; empty in a process that it did not start."""
    module = overlay_module()
    spec: dict[str, Any] = module.SPEC if module is not None else {}
    return spec


def _replace(command: list[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)
