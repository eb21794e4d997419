"""An import overlay: named files are imported from other text. Uses the standard library alone (see boot.py)."""

from __future__ import annotations

import importlib.machinery
import linecache
import os
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any


class OverlayLoader(importlib.machinery.SourceFileLoader):
    """Compiles the given text; no `.pyc` is read or written."""

    def __init__(self, fullname: str, path: str, text: str, served: set[str]) -> None:
        super().__init__(fullname, path)
        self._text, self._served = text, served

    def get_code(self, fullname: str) -> CodeType:
        self._served.add(os.path.realpath(self.path))
        lines = self._text.splitlines(keepends=True)
        # Without an mtime linecache never looks at the disk again: pdb and tracebacks show the text that runs.
        linecache.cache[self.path] = (len(self._text), None, lines, self.path)
        return compile(self._text, self.path, "exec", dont_inherit=True)

    def get_data(self, path: str) -> bytes:
        return self._text.encode() if path == self.path else super().get_data(path)


class OverlayFinder:
    """Stands first on `sys.meta_path`. `served` holds the real paths that were imported from other text."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = {os.path.realpath(path): text for path, text in texts.items()}
        self.served: set[str] = set()
        self._names = {_module_name(path) for path in self.texts}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.rpartition(".")[2] not in self._names:
            return None
        spec = self._ask_others(fullname, path, target)
        origin = os.path.realpath(spec.origin) if spec is not None and spec.origin else None
        if spec is None or origin not in self.texts:
            return None
        spec.loader = OverlayLoader(fullname, str(spec.origin), self.texts[origin], self.served)
        return spec

    def _ask_others(self, *args: Any) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is self or type(finder).__name__ == "AssertionRewritingHook":
                continue
            spec: importlib.machinery.ModuleSpec | None = finder.find_spec(*args)
            if spec is not None:
                return spec
        return None

    def install(self) -> None:
        """Puts the finder first, in front of pytest's assertion rewriting, which would read the disk or a `.pyc`."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        sys.meta_path.insert(0, self)


def _module_name(path: str) -> str:
    stem = os.path.basename(path).removesuffix(".py")
    return os.path.basename(os.path.dirname(path)) if stem == "__init__" else stem
