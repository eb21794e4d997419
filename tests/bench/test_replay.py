"""The seed document's traps on the real engine, in real processes: each is caught by the guard made for it."""

from typing import Any

import pytest

from teachkv.bench.replay import TRAPS, Trap, replay

EXPECTED = {
    "433 of 512": "refused",
    "a file that never ran": "refused",
    "a floor that never acted": "refused",
    "the 40-token drain probe": "refused",
    "a small delta from a ladder": "unresolved",
    "eight copies of one text": "cannot-answer",
}


def trap_param(trap: Trap) -> Any:
    """Real timings decide one of them; a busy machine can make its small delta a large one: not in the gate."""
    marks = [pytest.mark.slow] if trap.name == "a small delta from a ladder" else []
    return pytest.param(trap, marks=marks, id=trap.name)


@pytest.mark.parametrize("trap", [trap_param(trap) for trap in TRAPS])
def test_each_trap_is_caught_by_its_guard(trap: Trap) -> None:
    row: dict[str, Any] = replay(trap)
    assert row["status"] == EXPECTED[trap.name]
    if trap.name == "433 of 512":
        assert row["beside"] == "held"  # the same cell, the same arm, without the mutant
        assert row["got"] < row["wanted"] == 512
        assert row["errors"] == 0
        assert f"{row['got']} of 512 tokens came back (0 errors reported)" in row["says"]
    if trap.name == "the 40-token drain probe":
        assert row["ragged_steps"] > 0
        assert "ragged" in row["says"]
    if trap.name in ("a file that never ran", "a floor that never acted"):
        assert row["beside"] == "held"
    # A request that came back short is no success either, and short arms do less work; nothing else may be refused.
    expected = {"in-band error", "equal work"} if trap.name == "433 of 512" else set()
    assert set(row["also_refused"]) - {"fingerprint"} == expected
