"""`--mutate-rebase`: a drifted card is proposed anew where that is safe."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from teachkv.mutate.rebase import merge_lines


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "expected"),
    [
        ("x = a + b", "x = a - b", "total = a + b", "total = a - b"),
        ("if x < 0:", "if x < 1:", "if self.x < 0:", "if self.x < 1:"),
        ("f(x)", "pass", "g(x, y)", "pass"),
        ("f(x)", "", "g(x)", ""),
        ("x = a + b", "x = a - b", "x = a * b", None),
    ],
)
def test_the_mutation_is_carried_over_to_the_new_code(base: str, mine: str, theirs: str, expected: str | None) -> None:
    assert merge_lines(base, mine, theirs) == expected


def test_the_proposed_diff_applies_and_mends_the_card(toy: Any) -> None:
    core = toy.root / "toy/core.py"
    core.with_name("core.py.mutants").write_text("mutant[floor/one]:\n  - if x < 0:\n  + if x < 1:\n")
    core.write_text(
        core.read_text().replace("\n    if x < 0:\n        return 0", "\n    if x < (0):\n        return max(0, 0)")
    )
    assert toy.pytest().code == 1
    done = toy.pytest("--mutate-rebase", "-q")
    assert done.code == 0
    diff = done.text[done.text.index("--- a/") : done.text.rindex("\n\n")] + "\n"
    subprocess.run(["git", "apply", "--unsafe-paths", "-p1"], cwd=toy.root, input=diff, text=True, check=True)
    assert "#   - if x < (0):\n    #   -     return max(0, 0)\n    #   + pass\n" in core.read_text()
    assert "  - if x < (0):\n  + if x < (1):\n" in core.with_name("core.py.mutants").read_text()
    assert toy.pytest().code == 0


def test_a_conflict_is_left_to_the_author(toy: Any) -> None:
    core = toy.root / "toy/core.py"
    core.with_name("core.py.mutants").write_text("mutant[floor/one]:\n  - if x < 0:\n  + if x <= 0:\n")
    core.write_text(core.read_text().replace("\n    if x < 0:", "\n    if x > 0:"))
    assert "by hand: toy/core.py.mutants:1: mutant[floor/one]" in toy.pytest("--mutate-rebase").text


def test_without_drift_it_says_so(toy: Any) -> None:
    assert "no card has drifted" in toy.pytest("--mutate-rebase").text
