"""The rules of `--mutate-auto`, one statement at a time."""

from __future__ import annotations

import ast

import pytest

from teachkv.mutate.operators import variants


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = y if a is b else 0", ["pass", "x = y if a is not b else 0", "x = y if a is b else 1"]),
        ("return lambda: 1 < x", ["return None", "return lambda: 1 <= x", "return lambda: 2 < x"]),
        ("if a and 1: b()", ["if True:", "if False:", "if a or 1:", "if a and 2:"]),
        ("for i in range(n - 1): b()", ["for i in range(n + 1):", "for i in range(n - 2):"]),
    ],
)
def test_each_rule_at_each_place_and_blocks_stay(text: str, expected: list[str]) -> None:
    statement = ast.parse(f"def f():\n  {text}").body[0].body[0]  # type: ignore[attr-defined]
    before = ast.dump(statement)
    found = [ast.unparse(changed) for _, changed in variants(statement)]
    assert sorted(line.partition("\n")[0] for line in found) == sorted(expected)
    assert all(line.endswith("b()") for line in found if "\n" in line)
    assert ast.dump(statement) == before
