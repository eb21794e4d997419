"""How this pytest was called, so that a printed command can be pasted."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def as_called(*arguments: str) -> str:
    """`pytest ARGUMENTS` as the user would type it here: `.venv/bin/pytest ..` if that is how it began."""
    return shlex.join([*_program(Path(sys.argv[0])), *arguments])


def _program(began: Path) -> list[str]:
    if began.name == "__main__.py":  # python -m pytest
        return [_typed(Path(sys.executable)), "-m", "pytest"]
    return [_typed(began)] if "pytest" in began.name or began.name == "py.test" else ["pytest"]


def _typed(program: Path) -> str:
    """The name alone if the shell finds it, else the path from here, else the whole path."""
    if Path(shutil.which(program.name) or "") == program.absolute():
        return program.name
    near = os.path.relpath(program.absolute())
    return str(program.absolute()) if near.startswith(os.pardir) else near
