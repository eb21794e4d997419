"""Two versions of a file as trees of code objects: which functions differ, and whether anything else does."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

_FIELDS = (
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_flags",
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_exceptiontable",
)


@functools.lru_cache(maxsize=1024)
def compile_source(text: str, filename: str) -> CodeType:
    """The module's code; whatever `from __future__` stands here does not leak into it."""
    return compile(text, filename, "exec", dont_inherit=True)


def same_meaning(old: str, new: str, filename: str) -> bool:
    """Whether both texts compile to the same bytecode, line numbers aside."""
    return not any(True for _ in differences(*compile_pair(old, new, filename)))


def compile_pair(old: str, new: str, filename: str) -> tuple[CodeType, CodeType]:
    """Both texts as modules that differ exactly where the whole ones do. Raises SyntaxError.

    Only the top-level function or class around the change is compiled, on its own lines: in a long file with many
    mutants the rest would be most of the work.
    """
    before, after = old.split("\n"), new.split("\n")
    around = _around(old, before, after) if len(before) == len(after) else None
    if around is not None:
        try:
            return (
                compile_source(_only(before, *around), filename),
                compile_source(_only(after, *around), filename),
            )
        except SyntaxError:
            pass  # an open bracket may end in the lines below; the whole text tells
    return compile_source(old, filename), compile_source(new, filename)


def _around(old: str, before: list[str], after: list[str]) -> tuple[int, int, int] | None:
    """(last line of `from __future__`, first line, last line) of the statement that holds every changed line."""
    changed = [number for number, (one, other) in enumerate(zip(before, after, strict=True), 1) if one != other]
    future, places = _top_level(old)
    for first, last in places:
        if changed and future < first <= changed[0] and changed[-1] <= last:
            return future, first, last
    return None


@functools.lru_cache(maxsize=64)
def _top_level(text: str) -> tuple[int, list[tuple[int, int]]]:
    """(last line of `from __future__`, (first, last) of every top-level function and class); no line is shared."""
    future, places = 0, []
    body = ast.parse(text).body
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future = node.end_lineno or 0
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            places.append((first, node.end_lineno or first))
    return future, places


def _only(lines: list[str], future: int, first: int, last: int) -> str:
    """The text with all other lines blank, so that line numbers hold; `from __future__` changes how code compiles."""
    return "\n".join([*lines[:future], *[""] * (first - 1 - future), *lines[first - 1 : last]]) + "\n"


@dataclass(frozen=True)
class Difference:
    """A code object that differs by itself. `chain` leads to it from the module; both versions at each step."""

    chain: tuple[tuple[CodeType, CodeType], ...]

    @property
    def old(self) -> CodeType:
        return self.chain[-1][0]

    @property
    def new(self) -> CodeType:
        return self.chain[-1][1]


def differences(
    old: CodeType, new: CodeType, chain: tuple[tuple[CodeType, CodeType], ...] = ()
) -> Iterator[Difference]:
    """Every code object whose own instructions, names or constants differ (nested code aside)."""
    if old == new:  # equal to the line; only what differs is looked into
        return
    chain = (*chain, (old, new))
    inner_old, inner_new = nested(old), nested(new)
    names_old, names_new = [code.co_name for code in inner_old], [code.co_name for code in inner_new]
    if _shape(old) != _shape(new) or names_old != names_new:
        yield Difference(chain)
    for before, after in zip(inner_old, inner_new, strict=False):
        if before.co_name == after.co_name:
            yield from differences(before, after, chain)


def nested(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def is_function(code: CodeType) -> bool:
    """A function body (lambdas and comprehensions too), not a module or class body: CO_OPTIMIZED | CO_NEWLOCALS."""
    return code.co_flags & 0x3 == 0x3


def _shape(code: CodeType) -> tuple[Any, ...]:
    return (*(getattr(code, name) for name in _FIELDS), tuple(_constant(const) for const in code.co_consts))


def _constant(value: Any) -> Any:
    """A comparable form that keeps 1, 1.0, True and -0.0 apart; nested code is compared on its own."""
    if isinstance(value, CodeType):
        return "code"
    if isinstance(value, tuple):
        return ("tuple", *(_constant(item) for item in value))
    if isinstance(value, frozenset):
        return ("frozenset", *sorted(repr((type(item).__name__, item)) for item in value))
    # guard[typed-constants]: 1, True and 1.0 are equal, 0.0 and -0.0 too; a mutant may be just that
    # mutant[typed-constants/by-value]:
    #   - return (type(value).__name__, repr(value))
    #   + return value
    return (type(value).__name__, repr(value))
