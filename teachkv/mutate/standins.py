"""Applying a mutant of a file that is not Python: another file is named to the loader that reads kernel text.

`[tool.teachkv-mutate] kernel_override` names an environment variable, `name=path:name=path`; names are relative to the
package. The loader reads the other file; an audit hook sees it read, so that "served" is a fact and not a hope.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from teachkv.mutate.settings import Settings


class Opened:
    """Which of some files were opened in this process since the start. Audit hooks stay: one per process."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._wanted = set(paths)
        self.seen: set[str] = set()
        if self._wanted:
            sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
            path = os.fspath(arguments[0])
            if path in self._wanted:
                self.seen.add(str(path))


def is_kernel(path: Path) -> bool:
    """Whether a file is applied by a stand-in rather than by Python's own means."""
    return path.suffix != ".py"


def write_stand_ins(texts: Mapping[Path, str], folder: Path, settings: Settings) -> tuple[dict[str, str], list[str]]:
    """Writes the kernel texts below `folder`: (the environment that names them, their paths)."""
    kernels = {path: text for path, text in texts.items() if is_kernel(path)}
    if not kernels:
        return {}, []
    folder.mkdir(parents=True, exist_ok=True)
    entries, written = [], []
    for number, (path, text) in enumerate(kernels.items()):
        target = folder / f"{number}{path.suffix}"
        target.write_text(text, encoding="utf-8")
        entries.append(f"{name_in_package(path, settings)}={target}")
        written.append(str(target))
    return {settings.kernel_override: ":".join(entries)}, written


def name_in_package(path: Path, settings: Settings) -> str:
    """`linear/raw_kernel.cu`: the path below the package that holds it."""
    package = next(package for package in settings.packages if path.is_relative_to(package))
    return path.relative_to(package).as_posix()
