"""What the lessons share: a guard's card, code run with the guard taken away, and the red run of its test."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from teachkv.mutate.listing import diff_lines
from teachkv.mutate.registry import Registry, relative
from teachkv.mutate.settings import read_settings

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300  # seconds for one child, on a machine that has other things to do

# Runs in a fresh interpreter. The overlay stands before anything of the project is imported.
CHILD = """
import importlib.util, json, os, sys
spec = json.load(sys.stdin)
sys.path[:0] = spec["sys_path"]
found = importlib.util.spec_from_file_location("_boot", spec["boot"])
boot = importlib.util.module_from_spec(found)
found.loader.exec_module(boot)
finder = boot.load_overlay(spec)
names = {"__name__": "lesson_child"}
exec(compile(spec["source"], "<cell>", "exec"), names)
try:
    answer = {"value": names[spec["function"]](*spec["arguments"])}
except Exception as error:
    answer = {"raised": f"{type(error).__name__}: {error}"}
missing = sorted(set(spec["texts"]) - finder.served)
answer["not_served"] = missing
print("\\n" + json.dumps(answer, default=lambda value: value.tolist()))
"""


@functools.cache
def registry() -> Registry:
    return Registry.load(read_settings(ROOT))


def card(mutant: str) -> None:
    """Print why the guard exists and what the mutant changes."""
    found = registry().mutant(mutant)
    guard = registry().guards[found.guard]
    print(textwrap.fill(f"{guard.id}: {guard.why}", 100))
    if guard.origin:
        print(f"origin: {guard.origin}")
    print(*changed_lines(mutant), sep="\n")


def changed_lines(mutant: str) -> list[str]:
    """The diff of the code, without the card's own comment lines around it and without line numbers."""
    lines = list(diff_lines(registry(), registry().mutant(mutant)))
    return [lines[0], *(line for line in lines[2:] if line.strip() and not re.match(r"@@| \s*(#|//)", line))]


def without(mutant: str | list[str], function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function` gives back in a fresh interpreter whose engine carries the mutant (or several).

    The function brings its own imports; its result must be JSON. Raises RuntimeError with what it raised there, and if
    the mutated file was never imported, because then nothing would have been shown.
    """
    names = [mutant] if isinstance(mutant, str) else mutant
    texts = registry().rewrite([found for name in names for found in registry().with_partner(registry().mutant(name))])
    spec = {
        "texts": {os.path.realpath(path): text for path, text in texts.items()},
        "sys_path": [str(ROOT), str(ROOT / "notebooks")],
        "boot": str(ROOT / "teachkv" / "mutate" / "boot.py"),
        "source": textwrap.dedent(inspect.getsource(function)),
        "function": function.__name__,
        "arguments": arguments,
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps(spec), capture_output=True, text=True, timeout=LIMIT, cwd=ROOT
    )
    if done.returncode:
        raise RuntimeError(f"{mutant}: the child failed\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["not_served"]:
        raise RuntimeError(f"{mutant}: the function never imported {answer['not_served']}")
    if "raised" in answer:
        raise RuntimeError(answer["raised"])
    return answer["value"]


def failing_line(said: str) -> list[str]:
    """The line of code that stands above pytest's first "E"; none if there is no such line."""
    lines = said.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("E  ")), 0)
    above = (line.strip() for line in reversed(lines[:first]) if line.strip(" ^"))
    return [line[:116] for line in above][:1]


def killers(mutant: str) -> list[str]:
    """Node ids of the tests that claim to kill the mutant, read from the test files."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if mutant in text:
            found += [f"{relative(ROOT, path)}::{name}" for name in _claims(ast.parse(text), mutant)]
    return found


def _claims(tree: ast.AST, mutant: str) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = [call for call in node.decorator_list if isinstance(call, ast.Call)]
            said = [arg.value for call in marks for arg in call.args if isinstance(arg, ast.Constant)]
            if mutant in said:
                names.append(node.name)
    return names


def red_run(mutant: str, named: str = "") -> str:
    """Run a claimed killer (the first whose name has `named`) under the mutant and show what it says.

    Gives back the whole output. Raises AssertionError unless the test goes red.
    """
    test = next(test for test in killers(mutant) if named in test)
    command = [f"--mutate-with={mutant}", test, "-q", "--tb=short", "-x", "-p", "no:cacheprovider", "--color=no"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *command], capture_output=True, text=True, timeout=LIMIT, cwd=ROOT
    )
    said = re.sub(r"0x[0-9a-f]{6,}", "0x...", done.stdout)
    said = re.sub(r"(\d\.\d{4})\d+ *", r"\1", said)  # the digits behind depend on the machine's BLAS
    lines = [line[:120] for line in said.splitlines() if line.startswith(("E  ", "FAILED")) and "E    +" not in line]
    failing = [f">   {line}" for line in failing_line(said)]
    print(f"$ pytest --mutate-with={mutant} {test}", *failing, *lines[:9], *lines[9:][-1:], sep="\n")
    if done.returncode != 1:
        raise AssertionError(f"{test} did not go red under {mutant}:\n{done.stdout[-1500:]}{done.stderr[-500:]}")
    return done.stdout
