"""A sample of the random schedules on every run; the full count is a record in docs/evidence."""

from pathlib import Path

import pytest

from tests.engine.schedules import Tally, check_schedule, tiny_models

SAMPLE = 96


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return list(tiny_models(Path(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.mark.parametrize("group", range(8))
def test_each_request_is_as_it_is_alone(models: list[str], tally: Tally, group: int) -> None:
    for seed in range(group, SAMPLE, 8):
        check_schedule(models[seed % len(models)], seed, tally)


def test_the_schedules_had_teeth(tally: Tally) -> None:
    """Equality proves something only if completions differ, and if what may go wrong did happen."""
    if tally.schedules < SAMPLE:
        pytest.skip("runs after the schedules themselves")
    assert tally.verdict() == "EQUAL"
    for mechanism in ("align", "join", "leave", "speculate", "prefix-hit", "preempt", "overlap"):
        assert tally.mechanisms.get(mechanism, 0) > 0, tally.mechanisms
    assert tally.aborted > 0
