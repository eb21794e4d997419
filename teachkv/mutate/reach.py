"""Which spans a test reaches: a line tracer that looks only into files that hold a span."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from teachkv.mutate.codetree import compile_source, is_function, nested
from teachkv.mutate.place import Span
from teachkv.mutate.standins import Opened, is_kernel
from teachkv.mutate.swap import real_path

IMPORT = "import:"
# Line -> ids of the spans there; all those ids; what entering any function of the file says.
Wanted = tuple[dict[int, list[str]], set[str], set[str]]


class ReachTracer:
    """Collects in `hit` the ids of the spans whose lines run.

    A span at module or class level runs at import, before any test. For it "import:<id>" is collected when any
    function of its file is entered. A span in a kernel file counts as reached by whoever reads the file, and by all
    later tests of that process.
    """

    def __init__(self, spans: Mapping[str, Span]) -> None:
        self._by_file: dict[str, list[tuple[str, int, int]]] = {}
        self._imports: dict[str, set[str]] = {}
        self._kernels: dict[str, set[str]] = {}
        for name, span in spans.items():
            if is_kernel(span.path):
                self._kernels.setdefault(str(span.path), set()).add(name)
                continue
            self._by_file.setdefault(str(span.path), []).append((name, span.first, span.last))
            if runs_at_import(span):
                self._imports.setdefault(str(span.path), set()).add(IMPORT + name)
        self._all = {name for names in (*self._imports.values(), *self._kernels.values()) for name in names}
        self._all |= {name for places in self._by_file.values() for name, _, _ in places}
        self._opened: Opened | None = None
        self._wanted: dict[CodeType, Wanted | None] = {}
        self.hit: set[str] = set()

    def start(self) -> None:
        if self._kernels and self._opened is None:
            self._opened = Opened(self._kernels)
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def take(self) -> set[str]:
        """What was reached since the last call."""
        taken, self.hit = self.hit, set()
        return taken

    @property
    def read(self) -> set[str]:
        """The spans of kernel files that this process has read: their text may serve every later test."""
        opened = self._opened.seen if self._opened is not None else set()
        return {name for path in opened for name in self._kernels[path]}

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        try:
            wanted = self._wanted[code]
        except KeyError:
            wanted = self._wanted[code] = self._look_at(code)
        if wanted is None:
            return None
        lines, names, imports = wanted
        self.hit |= imports
        if names <= self.hit:
            if self._all <= self.hit:
                sys.settrace(None)  # nothing more to learn from this test
            return None

        def on_line(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line" and frame.f_lineno in lines:
                self.hit.update(lines[frame.f_lineno])
            return on_line

        return on_line

    def _look_at(self, code: CodeType) -> Wanted | None:
        """What to watch in this code object; None in a file without spans."""
        spans = self._by_file.get(real_path(code.co_filename))
        if spans is None:
            return None
        wanted: dict[int, list[str]] = {}
        for line in _lines(code):
            names = [name for name, first, last in spans if first <= line <= last]
            if names:
                wanted[line] = names
        imports = self._imports.get(real_path(code.co_filename), set())
        return wanted, {name for names in wanted.values() for name in names}, imports


def runs_at_import(span: Span) -> bool:
    """Whether a line of the span belongs to the module's or a class's own code (a `def` line does)."""
    return any(span.first <= line <= span.last for line in _import_lines(span.path))


@cache
def _import_lines(path: Path) -> set[int]:
    module = compile_source(path.read_text(encoding="utf-8"), str(path))
    return {line for code in _outer(module) for line in _lines(code)}


def _outer(code: CodeType) -> Iterator[CodeType]:
    if not is_function(code):
        yield code
        for inner in nested(code):
            yield from _outer(inner)


def _lines(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line}
