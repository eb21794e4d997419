"""What may be claimed, on machines that drift, favour whoever runs second, or are merely noisy."""

from pathlib import Path
from typing import Any

import pytest
from fakes import CELL, measured, said

from teachkv.bench.guards.claims import READABLE, claim, doubt, gain, spread, unsteady
from teachkv.bench.order import orders
from teachkv.bench.record import Record
from teachkv.bench.tables import heading

A = [100.0, 101.0, 99.0, 100.0, 100.0]
QUIET = [(100.0, 100.5), (101.0, 101.0), (99.0, 99.2), (100.0, 100.0), (100.0, 99.8)]


def times(factor: float) -> list[float]:
    return [value * factor for value in A]


@pytest.mark.kills("null/not-needed")
def test_no_a_a_pair_no_claim() -> None:
    assert claim(A, times(2.0), [], ladder=False).status == "refused"
    assert claim(A, times(2.0), [], ladder=True).status == "refused"


@pytest.mark.case("paradigmxyz/reth#22321")
@pytest.mark.kills("null-spread/half", "null-spread/gains-only")
def test_inside_the_spread_nothing_is_claimed_in_either_direction() -> None:
    noisy = [(100.0, 100.0 + 4.0 * (-1) ** i) for i in range(5)]
    for factor in (1.03, 0.97, 1.04):
        assert claim(A, times(factor), noisy, ladder=False).status == "unresolved"
    assert claim(A, times(1.05), noisy, ladder=False).status == "resolved"


@pytest.mark.kills("isolation/claims-small-ladder-delta", "isolation/gains-only")
def test_a_small_delta_from_a_ladder_is_unresolved_in_either_direction() -> None:
    for factor in (1.061, 0.903):
        found = claim(A, times(factor), QUIET, ladder=True)
        assert found.status == "unresolved"
        assert "ladder" in found.reason
        assert claim(A, times(factor), QUIET, ladder=False).status == "resolved"
    assert claim(A, times(1.174), QUIET, ladder=True).status == "resolved"


@pytest.mark.kills("enough-samples/two")
def test_a_small_delta_takes_five_samples() -> None:
    assert claim(A[:4], times(1.03)[:4], QUIET[:4], ladder=False).status == "unresolved"
    assert claim(A, times(1.03), QUIET, ladder=False).status == "resolved"
    assert claim(A[:2], times(1.3)[:2], QUIET[:2], ladder=False).status == "resolved"


@pytest.mark.kills("steady-machine/not-asked", "steady-machine/gains-only")
def test_on_a_machine_that_changes_its_speed_only_more_than_that_is_claimed() -> None:
    pulses = [0.015, 0.015, 0.0152, 0.028, 0.015]
    for factor in (0.6, 1.5, 1.86, 0.54):
        found = claim(A, times(factor), QUIET, ladder=False, pulses=pulses)
        assert found.status == "unresolved"
        assert "1.87 times slower" in found.reason
    for factor in (0.5, 1.9):
        assert claim(A, times(factor), QUIET, ladder=False, pulses=pulses).status == "resolved"


def test_a_steady_machine_forbids_nothing() -> None:
    assert claim(A, times(1.03), QUIET, ladder=False, pulses=[0.015, 0.0163]).status == "resolved"
    assert claim(A, times(1.03), QUIET, ladder=False).status == "resolved"


def test_the_bounds_themselves_a_tenth_is_steady_and_a_difference_of_just_the_straying_is_not_claimed() -> None:
    assert unsteady(0.0, [10.0, 11.0]) == ""
    assert unsteady(1.0, [1.0, 2.0]) != ""
    assert unsteady(-0.5, [1.0, 2.0]) != ""


def test_an_arm_that_fell_on_slow_cores_is_not_told_to_be_slower(tmp_path: Path) -> None:
    """Arm and base do the same; three of the arm's five samples fell on a core of half the speed."""
    record = measured(tmp_path, {"base": {}, "arm": {"slow": {"0": 1.9, "1": 1.9, "3": 1.9}}}, rounds=5)
    assert said(record, "arm").status == "unresolved"
    assert "times slower" in said(record, "arm").reason
    assert "the host's own loop took 10.00 .. 19.00 ms" in heading(record)
    again = Record.load(tmp_path / "record.json")
    assert str(said(again, "arm")) == str(said(record, "arm"))


def test_a_delta_of_just_the_readable_size_is_claimed_from_a_ladder_and_from_few_samples() -> None:
    assert doubt(READABLE, 0.0, 2, ladder=True) == ""
    assert doubt(-READABLE, 0.0, 2, ladder=True) == ""


@pytest.mark.kills("spread/mean", "spread/gains-only")
def test_the_spread_is_the_largest_distance_whichever_way_it_points() -> None:
    assert spread([(100.0, 97.0), (100.0, 103.0), (100.0, 95.0)]) == pytest.approx(0.05)
    assert spread([(100.0, 92.0)]) == pytest.approx(0.08)
    assert spread([]) is None


def test_the_delta_is_the_geometric_mean_of_the_ratios() -> None:
    assert gain([100.0, 50.0], [110.0, 55.0]) == pytest.approx(0.10)
    assert gain([100.0, 100.0], [200.0, 50.0]) == pytest.approx(0.0)


@pytest.mark.case("paradigmxyz/reth#22321")
@pytest.mark.kills("balanced-order/fixed", "balanced-order/one-order-per-square")
def test_every_arm_stands_at_every_place_equally_often() -> None:
    for arms in (2, 3, 4, 5):
        found = orders(arms, arms * 4, seed=1)
        for place in range(arms):
            assert sorted(order[place] for order in found) == sorted(list(range(arms)) * 4)
    assert len({tuple(order) for order in orders(4, 40, seed=1)}) > 4  # shuffled anew, not one square for ever


DRIFTS: list[dict[str, Any]] = [
    {"drift": 0.01},
    {"drift": -0.01},
    {"first": 0.08},
    {"drift": 0.02, "first": 0.05},
    {"noise": 0.04},
]


@pytest.mark.case("paradigmxyz/reth#22321")
@pytest.mark.parametrize("world", DRIFTS)
@pytest.mark.parametrize("ladder", [False, True])
def test_a_against_a_claims_nothing_in_any_world(tmp_path: Path, world: dict[str, Any], ladder: bool) -> None:
    """A third arm that is the base once more: the harness is not told, and must find no difference."""
    cells = (CELL, "spread-4:longest=90,out=10") if ladder else (CELL,)
    record = measured(tmp_path, {"base": world, "same": dict(world)}, cells=cells, ladder=ladder, rounds=6)
    for cell in record.cells:
        assert said(record, "same", cell).status == "unresolved"


@pytest.mark.parametrize("world", [*DRIFTS, {}])
def test_a_true_twenty_per_cent_is_found_in_any_world(tmp_path: Path, world: dict[str, Any]) -> None:
    faster = world | {"tok_s": 1200.0, "prefill_tok_s": 12_000.0}
    found = said(measured(tmp_path, {"base": world, "fast": faster}, rounds=6), "fast")
    assert found.status == "resolved"
    assert found.delta == pytest.approx(0.20, abs=0.05)


def three_per_cent(tmp_path: Path, world: dict[str, Any], **setup: Any) -> Any:
    faster = world | {"tok_s": 1030.0, "prefill_tok_s": 10_300.0}
    return said(measured(tmp_path, {"base": world, "fast": faster}, **setup), "fast")


def test_a_true_three_per_cent_is_reported_when_isolated_and_quiet(tmp_path: Path) -> None:
    found = three_per_cent(tmp_path, {"noise": 0.002}, rounds=5)
    assert found.status == "resolved"
    assert found.delta == pytest.approx(0.03, abs=0.005)


def test_a_true_three_per_cent_is_unresolved_from_a_ladder_or_under_noise(tmp_path: Path) -> None:
    ladder = three_per_cent(tmp_path, {"noise": 0.002}, cells=(CELL, "spread-4:longest=90,out=10"), ladder=True)
    assert (ladder.status, "ladder" in ladder.reason) == ("unresolved", True)
    noisy = three_per_cent(tmp_path, {"noise": 0.04})
    assert noisy.spread is not None
    assert noisy.spread >= 0.03
    assert noisy.status == "unresolved"


def test_too_few_samples_leave_three_per_cent_unresolved(tmp_path: Path) -> None:
    assert three_per_cent(tmp_path, {}, rounds=4).status == "unresolved"


def test_without_the_a_a_pair_the_harness_refuses(tmp_path: Path) -> None:
    record = measured(tmp_path, {"base": {}, "fast": {"tok_s": 2000.0}}, null=False)
    found = said(record, "fast")
    assert (found.status, found.reason) == ("refused", "no A/A pair in this call")
