"""Exercises: a student's way from an empty test to a kill, and a guard hunt."""

from __future__ import annotations

import json
from typing import Any

import pytest

CORE = """
    LIMIT = 9

    def clamp(x):
        # guard[floor]: nothing below zero
        # mutant[floor/removed]:
        #   - x = max(x, 0)
        #   + pass
        # mutant[floor/spelled]: decoy
        #   - x = max(x, 0)
        #   + x = x if x > 0 else 0
        x = max(x, 0)
        # guard[cap]: nothing above the limit
        # mutant[cap/removed]:
        #   - x = min(x, LIMIT)
        #   + pass
        x = min(x, LIMIT)
        return x

    def far(x):
        return clamp(x) if x < 0 else x
"""
GIVEN = (
    '"""A count went below zero."""\n\nfrom toy.core import clamp, far\n\n\ndef test_it():\n    assert far(5) == 5\n'
)
SOLUTION = GIVEN.replace("far(5) == 5", "clamp(-1) == 0")
HUNT = (
    '"""Find it."""\n\nfrom toy.core import clamp\n\nANSWER = None\n\n\ndef test_seen():\n    assert clamp(20) == 9\n'
)
TOML = 'title = "{title}"\nkind = "{kind}"\nmutants = ["{mutant}"]\nhints = ["look", "closer", "there"]\n'


STRICT = '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n'


@pytest.fixture
def school(project: Any) -> Any:
    project.write("pyproject.toml", '[tool.teachkv-mutate]\npackages = ["toy"]\nexercises = "exercises"\n' + STRICT)
    project.write("toy/core.py", CORE)
    for name, kind, mutant, given in (
        ("ex01_floor", "test", "floor/removed", GIVEN), ("ex02_cap", "hunt", "cap/removed", HUNT)
    ):  # fmt: skip
        more = 'decoys = ["floor/spelled"]\npoints = { "floor/removed" = 2 }\n' if kind == "test" else ""
        toml = TOML.format(title=f"Title of {name}", kind=kind, mutant=mutant) + more
        project.write(f"exercises/catalogue/{name}/exercise.toml", toml)
        project.write(f"exercises/catalogue/{name}/given.py", given)
    project.student = project.root / "exercises/ex01_floor.py"
    return project


def test_the_ladder_from_not_reached_to_killed(school: Any) -> None:
    done = school.pytest("--mutate", "--exercise")
    assert done.code == 6
    assert "floor/removed: still alive.\n  not reached: no test of yours runs line 11 of toy/core.py" in done.text
    steps = {
        "clamp(5) == 5": "reached: 1 call in 1 test, the same result each time",
        "clamp(-1) is not None": "call 1: 0 became -1; no assertion looks",
        "[][clamp(-1)] if clamp(-1) else True": "your test broke before its assertion could speak: IndexError",
    }
    for expression, expected in steps.items():
        school.student.write_text(GIVEN.replace("far(5) == 5", expression))
        done = school.pytest("--mutate", "--exercise")
        assert done.code == 6
        assert expected in done.text
    school.student.write_text(SOLUTION)
    done = school.pytest("--mutate", "--exercise", "--mutate-report=json:r.json")
    assert done.code == 0, done.text
    assert "solved, 2 points\n[#-] 1/2 done, 2 points\nnext: ex02_cap, Title of ex02_cap" in done.text
    assert json.loads((school.root / "r.json").read_text())[0]["mutants"] == {"floor/removed": "killed"}


def test_a_test_that_is_red_on_the_real_code_is_wrong(school: Any) -> None:
    school.student.write_text(GIVEN.replace("far(5) == 5", "clamp(-1) == -1"))
    done = school.pytest("--mutate", "--exercise")
    assert done.code == 1
    assert "your test is red on the real code; the code is right" in done.text


def test_a_test_that_pins_the_spelling_is_refused(school: Any) -> None:
    pins = "clamp(-1) == 0 and 'max' in clamp.__code__.co_names"
    school.student.write_text(GIVEN.replace("far(5) == 5", pins))
    done = school.pytest("--mutate", "--exercise")
    assert done.code == 6
    assert "Your test pins the spelling, not the behaviour" in done.text


def test_a_check_of_the_code_itself_is_no_kill(school: Any) -> None:
    core = school.root / "toy/core.py"
    core.write_text(core.read_text().replace("    return x\n", "    assert x >= 0, 'own check'\n    return x\n", 1))
    school.student.write_text(GIVEN.replace("assert far(5) == 5", "clamp(-1)"))
    done = school.pytest("--mutate", "--exercise")
    assert done.code == 6
    assert "the code's own check went red, not an assertion of yours" in done.text


def test_no_test_and_a_broken_file_are_told_apart(school: Any) -> None:
    school.student.write_text("x = 1\n")
    assert "no test in ex01_floor.py yet" in school.pytest("--mutate", "--exercise").text
    school.student.write_text("x = = 1\n")
    done = school.pytest("--mutate", "--exercise")
    assert done.code == 2
    assert "SyntaxError" in done.text


def test_list_hints_skip_and_reset(school: Any) -> None:
    assert (
        "ex01_floor                               pending  Title of ex01_floor"
        in school.pytest("--mutate", "--exercise-list").text
    )
    for number, hint in enumerate(("look", "closer", "there", "there"), 1):
        assert f"hint {min(number, 3)} of 3: {hint}" in school.pytest("--mutate", "--exercise-hint").text
    school.student.write_text("mine\n")
    school.pytest("--mutate", "--exercise-reset", "ex01_floor")
    assert school.student.read_text() == GIVEN
    assert school.student.with_suffix(".old").read_text() == "mine\n"
    done = school.pytest("--mutate", "--exercise-skip")
    assert "[--] 0/2 done, 1 skipped, 0 points\nnext: ex02_cap" in done.text


def test_a_hunt_is_won_by_naming_the_line(school: Any) -> None:
    done = school.pytest("--mutate", "--exercise", "ex02")
    assert done.code == 6
    assert "with one guard taken away: test_seen: AssertionError: assert 20 == 9" in done.text
    hunt = school.root / "exercises/ex02_cap.py"
    for answer, code, text in ((11, 6, "not line 11"), (16, 0, "found: cap, nothing above the limit")):
        hunt.write_text(HUNT.replace("None", f'("toy/core.py", {answer})'))
        done = school.pytest("--mutate", "--exercise=ex02_cap")
        assert (done.code, text in done.text) == (code, True), done.text


def test_check_all_takes_back_what_no_longer_holds(school: Any) -> None:
    school.student.write_text(SOLUTION)
    assert school.pytest("--mutate", "--exercise").code == 0
    school.student.write_text(GIVEN)
    done = school.pytest("--mutate", "--exercise-check-all")
    assert done.code == 6
    assert "ex01_floor                               open     0 of 2\n[--] 0/2 done, 0 points" in done.text


def test_watch_judges_at_each_change_and_stops_when_solved(school: Any) -> None:
    school.student.write_text(GIVEN)
    with school.start("--mutate", "--exercise-watch") as process:
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "not reached" in line:
                school.student.write_text(SOLUTION)
    assert process.returncode == 0, lines
    assert sum("not reached" in line for line in lines) == 1
    assert any("next: ex02_cap" in line for line in lines)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--exercise"], "need --mutate"),
        (["--mutate", "--exercise=ex09"], "unknown exercise 'ex09'"),
        (["--mutate", "--exercise", "--exercise-hint"], "give one"),
    ],
)
def test_wrong_use_is_one_line(school: Any, args: list[str], text: str) -> None:
    done = school.pytest(*args)
    assert done.code == 4
    assert text in done.text


def test_a_wrong_exercise_is_named(school: Any) -> None:
    school.write(
        "exercises/catalogue/ex01_floor/exercise.toml", 'title = "x"\nmutants = ["floor/removed"]\nhints = ["a"]\n'
    )
    done = school.pytest("--mutate", "--exercise")
    assert done.code == 4
    assert "needs 3 hints" in done.text
