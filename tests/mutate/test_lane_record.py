"""The record of a lane: what survives on a device is killed without one, and says why it is no gap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mutate.lane_record import NO_INPUT, RACE, READS_ONLY, record

RECORD = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "mutation-gpu-lane.json"


def report(**verdicts: tuple[str, str]) -> dict[str, Any]:
    results = [{"id": f"{name}/m", "verdict": v, "killer": k, "lane": "host"} for name, (v, k) in verdicts.items()]
    return {"results": results, "controls": {"baseline": 3}}


def test_a_survivor_names_the_lane_and_the_test_that_kill_it() -> None:
    found = record(report(a=("killed", "t"), b=("survived", "")), report(a=("killed", "u"), b=("killed", "v")), "m")
    assert found["verdicts"] == [
        {"id": "a/m", "verdict": "killed", "killer": "t"},
        {"id": "b/m", "verdict": "survived", "killer": "", "why": NO_INPUT, "elsewhere": ["host", "killed", "v"]},
    ]
    assert (found["mutants"], found["killed"], found["survived"], found["killed_without_a_device"]) == (2, 1, 1, 2)


def test_a_survivor_that_no_other_lane_kills_is_a_gap_and_no_record() -> None:
    with pytest.raises(ValueError, match="b/m survives in every lane"):
        record(report(b=("survived", "")), report(b=("survived", "")), "m")


def test_of_the_run_on_a_device_every_survivor_is_killed_without_one() -> None:
    kept = json.loads(RECORD.read_text(encoding="utf-8"))
    survivors = [row for row in kept["verdicts"] if not row["killer"]]
    assert len(survivors) == kept["survived"]
    assert kept["killed_without_a_device"] == kept["mutants"] == len(kept["verdicts"])
    for row in survivors:
        lane, verdict, killer = row["elsewhere"]
        assert lane == ("tsan" if row["id"].startswith("sync-") else "host"), row
        assert verdict in ("killed", "killed(raise)"), row
        assert killer.endswith(f"[{row['id']}]"), row
        assert row["why"] in (RACE, READS_ONLY, NO_INPUT), row
