"""Why a mutant survived, and what the automatic operators find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate.auto import check_notes
from teachkv.mutate.observe import fingerprint
from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import read_settings

CORE = """
    def f(x, out):
        # guard[g]: why
        # mutant[g/m]: unpaired: shown here
        #   - y = x + 1
        #   + y = {new}
        y = x + 1
        out.append(0 * y)
        return min(y, 9)
"""
TESTS = """
    from toy.core import f

    def test_f():
        out = []
        f({x}, out)
        assert out == [0]
"""


@pytest.mark.parametrize(
    ("new", "x", "expected"),
    [
        ("x + 2", 20, "reached: 1 call in 1 test, the same result each time"),
        ("x + 2", 1, "the result differed in tests/test_toy.py::test_f, call 1: 2 became 3; no assertion looks"),
    ],
)
def test_a_survivor_is_explained_by_what_the_function_gave_back(project: Any, new: str, x: int, expected: str) -> None:
    project.write("toy/core.py", CORE.format(new=new))
    project.write("tests/test_toy.py", TESTS.format(x=x))
    done = project.mutate()
    assert done.verdict("g/m") == "survived"
    assert expected in done.result("g/m")["explanation"]


def test_not_reached_is_said_so(project: Any) -> None:
    project.write("toy/core.py", CORE.format(new="x"))
    project.write("tests/test_toy.py", "import toy.core\ndef test_nothing(): pass\n")
    done = project.mutate()
    assert done.verdict("g/m") == "unexercised"
    assert done.result("g/m")["explanation"] == "not reached: no passing test runs line 6 of core.py"


def test_two_guards_that_cover_each_other_are_found_by_removing_both(project: Any) -> None:
    lines = ["def f(x):"]
    for name in ("a", "b"):
        lines += [
            f"    # guard[{name}]: why",
            f"    # mutant[{name}/removed]:",
            "    #   - x = max(x, 0)",
            "    #   + pass",
        ]
        lines += ["    x = max(x, 0)"]
    project.write("toy/core.py", "\n".join([*lines, "    return x\n"]))
    claim = "@pytest.mark.kills('a/removed', 'b/removed')\n"
    project.write(
        "tests/test_toy.py", f"import pytest\nfrom toy.core import f\n{claim}def test_f(): assert f(-1) == 0\n"
    )
    done = project.mutate("--mutate-order=2")
    assert done.code == 6
    for name, other in (("a", "b"), ("b", "a")):
        expected = f"redundant with guard {other}: without both ({other}/removed) tests/test_toy.py::test_f goes red"
        assert expected in done.result(f"{name}/removed")["explanation"]


def test_automatic_mutants_stay_in_guard_spans_and_never_gate(toy: Any) -> None:
    done = toy.mutate("--mutate-auto")
    assert done.code == 0, done.text
    automatic = {result["id"]: result["verdict"] for result in done.report["results"] if result["automatic"]}
    assert automatic == {
        "floor/auto-7-true-1": "killed",
        "floor/auto-7-false-2": "killed",
        "floor/auto-7-compare-3": "survived",
        "floor/auto-7-constant-4": "survived",
        "floor/auto-8-none-5": "killed",
        "floor/auto-8-constant-6": "killed",
    }
    assert len(toy.mutate("--mutate-auto=2").report["results"]) == 3


NOTE = "survivor[floor]: nobody asks for nought\n  - if x < 0:\n  + {new}\n"


def test_a_note_explains_a_survivor(toy: Any) -> None:
    toy.write("toy/core.py.mutants", NOTE.format(new="if x <= 0:"))
    done = toy.mutate("--mutate-auto")
    assert done.code == 0, done.text
    assert done.result("floor/auto-7-compare-3")["unpaired"] == "nobody asks for nought"
    assert "6 automatic, 2 alive (1 explained)" in done.text


@pytest.mark.parametrize(
    ("new", "code", "message"),
    [
        ("if x < 9:", 4, "toy/core.py.mutants:1: survivor[floor] fits no automatic mutant of that guard"),
        ("if True:", 6, "says unpaired, but tests/test_toy.py::test_keeps kills it"),
    ],
)
def test_a_note_of_a_mutant_that_is_killed_or_is_none_is_an_error(toy: Any, new: str, code: int, message: str) -> None:
    toy.write("toy/core.py.mutants", NOTE.format(new=new))
    done = toy.mutate("--mutate-auto")
    assert done.code == code
    assert message in done.text


def test_a_note_that_cannot_be_read_is_an_error_of_its_file(toy: Any) -> None:
    toy.write("toy/core.py.mutants", "survivor[floor]:\n  - if x < 0:\n")
    done = toy.pytest()
    assert done.code == 1
    assert "toy/core.py.mutants:1: unreadable note" in done.text


def test_the_notes_of_this_project_fit_what_they_explain() -> None:
    check_notes(Registry.load(read_settings(Path(__file__).resolve().parents[2])))


def test_fingerprints_see_values_not_identities() -> None:
    class Thing:
        def __init__(self, value: object) -> None:
            self.value = value

    assert fingerprint([Thing(1), {2, 3}]) == fingerprint([Thing(1), {3, 2}])
    assert (
        len({fingerprint(value) for value in (Thing(1), Thing(2), 1, True, 1.0, -0.0, 0.0, "1", b"1", [1], (1,))}) == 11
    )
