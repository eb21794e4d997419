"""Why a mutant needs a fresh interpreter, asked of the plan itself (test_applying.py asks whole runs)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from teachkv.mutate.swap import LiveFunctions, Plan, RanBefore, make_plan

CORE = """
CONSTANT = 1 + 1

def warm(x):
    return x + 2

def idle(x):
    return x + 3

EARLY = warm(1)
"""


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Path]:
    """A module that is about to be imported, and forgotten behind the test."""
    path = tmp_path / "hot_or_cold_core.py"
    path.write_text(CORE)
    sys.path.insert(0, str(tmp_path))
    yield path
    sys.path.remove(str(tmp_path))
    sys.modules.pop(path.stem, None)


def plan(path: Path, old: str, new: str) -> Plan:
    """How the rewrite would be applied after an import that was watched."""
    before = sys.gettrace()
    ran = RanBefore([path])
    ran.start()
    try:
        importlib.import_module(path.stem)
    finally:
        sys.settrace(before)
    return make_plan({path: CORE.replace(old, new)}, {path: CORE}, LiveFunctions([path]), ran)


@pytest.mark.kills("ran-before-fork/swaps-anyway")
def test_a_function_that_ran_at_import_is_not_swapped(core: Path) -> None:
    assert plan(core, "x + 2", "x + 9").cold == "ran before the fork"


@pytest.mark.kills("module-level/swaps-anyway")
def test_a_module_body_cannot_be_swapped(core: Path) -> None:
    assert plan(core, "1 + 1", "1 + 9").cold == "module or class level"


def test_a_function_that_did_not_run_is_swapped_in_place(core: Path) -> None:
    made = plan(core, "x + 3", "x + 9")
    assert (made.cold, len(made.swaps)) == ("", 1)
