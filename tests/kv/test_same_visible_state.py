"""Rebuild and incremental are each other's twin: any history shows the same visible state, bit for bit.

Visible state = {id: live K and V per layer, next position}. Columns and rows may differ. Every column that holds
nobody's content is NaN, and each part's fake model checks that its queries see their own request's keys, nothing else.
"""

from __future__ import annotations

from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from twins import ACTS, History

RINGS = pytest.mark.parametrize("rings", [(None, None), (None, 4), (3, 3)], ids=["full", "full and ring", "ring"])
SEEDS = 3
RAGGED = {"align", "strip", "commit", "realign", "compact"}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 4, and a maximum that is no multiple of it, so that every edge is met often."""
    for module in ("spec", "columns", "budget"):
        monkeypatch.setattr(f"teachkv.kv.{module}.GROW", 4)


class Twins(RuleBasedStateMachine):
    """Hypothesis chooses and shrinks the history."""

    rings: tuple[int | None, ...] = (None, None)

    def __init__(self) -> None:
        super().__init__()
        self.history = History(self.rings)

    @rule(act=st.sampled_from(ACTS), rng=st.randoms(use_true_random=False))
    def act(self, act: Any, rng: Random) -> None:
        act(self.history, rng)

    @invariant()
    def same_visible_state(self) -> None:
        self.history.check()

    def teardown(self) -> None:
        self.history.finish()


@RINGS
def test_any_short_history_shows_the_same_visible_state(rings: tuple[int | None, ...]) -> None:
    machine: Any = type("Machine", (Twins,), {"rings": rings})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=20,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@RINGS
def test_long_histories_show_the_same_visible_state(rings: tuple[int | None, ...]) -> None:
    """Fixed seeds, so that every mechanism is known to have acted."""
    seen = set()
    weights = [4, 2, 2, 4, 3, 2, 1, 1, 1, 1, 1, 1]
    for seed in range(SEEDS):
        rng, history = Random(seed), History(rings)
        for act in rng.choices(ACTS, weights, k=120):
            act(history, rng)
            if rng.random() < 0.3:
                history.check()
        history.check()
        seen |= history.finish()
    assert seen >= {"join", "leave", "grow"} | (RAGGED if rings == (None, None) else set())
