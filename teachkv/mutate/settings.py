"""`[tool.teachkv-mutate]` of the pyproject.toml in pytest's root folder."""

from __future__ import annotations

import importlib.util
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from teachkv.mutate.errors import MutateError

_TEXTS = ("without", "kernel_override", "kernel_check")
_KNOWN = {"packages", "exercises", "ignore", "without", "kernel_override", "kernel_check"}


@dataclass(frozen=True)
class Settings:
    """`packages` are the folders whose files carry cards; `exercises` the folder of the exercises, if any.

    `ignore` are test files and folders that a run does not even import (they hold no killer and load much).
    `without` is a mark expression: tests that take no part in a run (minutes long, or in need of a device).
    `kernel_override` and `kernel_check` are told in standins.py and ptx.py.
    """

    root: Path
    packages: tuple[Path, ...] = ()
    exercises: Path | None = None
    without: str = ""
    kernel_override: str = ""
    kernel_check: str = ""
    ignore: tuple[Path, ...] = ()


@cache
def read_settings(root: Path) -> Settings:
    """Settings below `root`; without the table (or the file) no package has cards. Unknown keys are errors."""
    project = root / "pyproject.toml"
    if not project.is_file():
        return Settings(root)
    table = tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {}).get("teachkv-mutate", {})
    unknown = sorted(set(table) - _KNOWN)
    if unknown:
        raise MutateError(f"{project}: unknown key '{unknown[0]}' in [tool.teachkv-mutate]; known are {sorted(_KNOWN)}")
    names, ignored = (_names(project, table, key) for key in ("packages", "ignore"))
    missing = [name for name in ignored if not (root / name).exists()]
    if missing:
        raise MutateError(f"{project}: [tool.teachkv-mutate] ignore names '{missing[0]}', which is not there")
    exercises = table.get("exercises")
    folders = tuple(_folder(root, name) for name in names)
    texts = {key: str(table.get(key, "")) for key in _TEXTS}
    paths = tuple(root / name for name in ignored)
    return Settings(root, folders, root / exercises if exercises else None, ignore=paths, **texts)


def _names(project: Path, table: dict[str, Any], key: str) -> list[str]:
    names = table.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MutateError(f"{project}: [tool.teachkv-mutate] {key} must be a list of names")
    return names


def _folder(root: Path, name: str) -> Path:
    """The folder of a package, found without importing it: the source tree first, then what is installed."""
    for base in (root, root / "src"):
        if (base / name).is_dir():
            return (base / name).resolve()
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MutateError(f"{root / 'pyproject.toml'}: no package '{name}' below {root} nor installed")
    return Path(next(iter(spec.submodule_search_locations))).resolve()
