"""Applying a mutant in place: which functions to give another `__code__`, or why a fresh interpreter is needed.

Re-executing a module or setting its attributes would miss every function that something else already holds
(`from x import y`, decorators, properties, closures) and would make new classes. A swapped `__code__` reaches all.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from teachkv.mutate.codetree import Difference, compile_pair, differences, is_function
from teachkv.mutate.standins import is_kernel

CodeKey = tuple[str, str, int]
real_path = lru_cache(maxsize=None)(os.path.realpath)


def code_key(code: CodeType) -> CodeKey:
    """What names a code object across two compilations of one file."""
    return real_path(code.co_filename), code.co_qualname, code.co_firstlineno


class RanBefore:
    """Remembers which functions of the given files ran while conftests and tests were imported.

    Such a function may have left its result in a constant or a cache: swapping it afterwards would come too late.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = {str(path) for path in files}
        self._known: dict[str, bool] = {}
        self.keys: set[CodeKey] = set()
        self.loaded = {real_path(name) for name in _module_files()} & self._files

    def start(self) -> None:
        sys.settrace(self._on_call)

    def stop(self) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        wanted = self._known.get(code.co_filename)
        if wanted is None:
            wanted = self._known[code.co_filename] = real_path(code.co_filename) in self._files
        if wanted:
            self.keys.add(code_key(code))

    def __contains__(self, code: CodeType) -> bool:
        key = code_key(code)
        return key[0] in self.loaded or key in self.keys


class LiveFunctions:
    """Every function object of the given files, found once before the first fork."""

    def __init__(self, files: Iterable[Path]) -> None:
        wanted = {str(path) for path in files}
        self._by_key: dict[CodeKey, list[FunctionType]] = {}
        self.imported = {real_path(name) for name in _module_files()}
        gc.unfreeze()  # what an earlier campaign of this process froze is not listed
        for thing in gc.get_objects():
            if type(thing) is FunctionType and real_path(thing.__code__.co_filename) in wanted:
                self._by_key.setdefault(code_key(thing.__code__), []).append(thing)

    def of(self, code: CodeType) -> list[FunctionType]:
        return self._by_key.get(code_key(code), [])


@dataclass
class Plan:
    """How to apply one mutant. `cold` is the reason why it needs a fresh interpreter; "" when it does not.

    `texts` are all its files; `late` those not imported yet, which a forked child imports through the overlay;
    `places` the changed functions, as (file, qualified name).
    """

    texts: dict[Path, str]
    originals: dict[Path, str]
    swaps: list[tuple[FunctionType, CodeType]] = field(default_factory=list)
    undo: list[tuple[FunctionType, CodeType]] = field(default_factory=list)
    late: dict[str, str] = field(default_factory=dict)
    places: list[tuple[str, str]] = field(default_factory=list)
    cold: str = ""


def make_plan(texts: dict[Path, str], originals: dict[Path, str], live: LiveFunctions, ran: RanBefore) -> Plan:
    """Decides hot or cold. Raises SyntaxError when a text does not compile."""
    plan = Plan(texts, {path: originals[path] for path in texts})
    for path, text in texts.items():
        if is_kernel(path):
            continue  # applied by a stand-in; texts has it
        old, new = compile_pair(originals[path], text, str(path))
        found = list(differences(old, new))
        plan.places += [(str(path), name) for item in found if (name := _named_function(item))]
        if str(path) not in live.imported:
            plan.late[str(path)] = text
            continue
        plan.cold = plan.cold or next(filter(None, (_why_cold(item, ran) for item in found)), "")
        swaps = [swap for item in found for swap in _swaps(item, live, new=True)]
        if found and not swaps:
            plan.cold = plan.cold or "no live function holds this code"
        plan.swaps += swaps
        plan.undo += [swap for item in found for swap in _swaps(item, live, new=False)]
    return plan


def _named_function(item: Difference) -> str:
    """The innermost function around the change that is no lambda or comprehension; "" at module or class level."""
    names = [before.co_qualname for before, _ in item.chain if is_function(before) and before.co_name[0] != "<"]
    return names[-1] if names else ""


def _why_cold(item: Difference, ran: RanBefore) -> str:
    # guard[module-level]: a module or class body has run; there is no function to give its new code to
    # mutant[module-level/swaps-anyway]:
    #   - if not is_function(item.old):
    #   + if item.old is None:
    if not is_function(item.old):
        return "module or class level"
    # guard[ran-before-fork]: what a function left in a constant or a cache outlives the swap of its code
    # mutant[ran-before-fork/swaps-anyway]:
    #   - if item.old in ran:
    #   + if item.old is None:
    if item.old in ran:
        return "ran before the fork"
    for before, after in item.chain[1:]:
        if is_function(before) and before.co_freevars != after.co_freevars:
            return "other closure variables"
    return ""


def _swaps(item: Difference, live: LiveFunctions, new: bool) -> Iterable[tuple[FunctionType, CodeType]]:
    """(function, code) for the differing function and all functions around it, whose constants hold its code."""
    for before, after in item.chain[1:]:
        for function in live.of(before) if is_function(before) else []:
            yield function, after if new else before


def apply_swaps(swaps: list[tuple[FunctionType, CodeType]]) -> int:
    """Gives each function its code and says how many took it."""
    for function, code in swaps:
        function.__code__ = code
    return len({id(function) for function, _ in swaps})


def _module_files() -> list[str]:
    modules = list(sys.modules.values())
    return [name for module in modules if isinstance(name := getattr(module, "__file__", None), str)]
