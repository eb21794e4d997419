"""The running/waiting line and the engagement log, on a clock of our own."""

import json
from pathlib import Path

import pytest

from teachkv.observe import EngagementLog, IntervalLog, RowRecord, StepRecord, TokenRecord, read_jsonl, write_jsonl


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def record(step: int = 0, **fields: object) -> StepRecord:
    base: dict[str, object] = {"plan": {}, "running": 16, "waiting": 112, "resident": 128}
    return StepRecord(step=step, **(base | fields))  # type: ignore[arg-type]


def test_prefill_and_decode_rates_are_never_added() -> None:
    lines: list[str] = []
    clock = Clock()
    log = IntervalLog(lines.append, interval=5.0, clock=clock)
    log.see(record(prefill_tokens=500, decode_tokens=10, seconds=0.0))
    clock.now += 5.0
    log.see(record(decode_tokens=10), hit_rate=0.25)
    assert lines == [
        "16 running, 112 waiting, 128 resident; prefill 100.0 tok/s, decode 4.0 tok/s, prefix hit rate 25%"
    ]


def test_a_short_run_still_shows_one_line_and_an_idle_one_none() -> None:
    lines: list[str] = []
    log = IntervalLog(lines.append, clock=Clock())
    log.flush()
    assert lines == []
    log.see(record(decode_tokens=1))
    log.flush()
    log.flush()
    assert len(lines) == 1


def test_a_mechanism_is_announced_once_and_counted_always() -> None:
    lines: list[str] = []
    log = EngagementLog(lines.append)
    for step in range(3):
        log.see(record(step, events=(f"align: rows {step}",)))
    assert lines == ["engaged: align (step 0: align: rows 0)"]
    assert log.counts == {"align": 3}
    assert log.first_step == {"align": 0}


def test_records_survive_the_file(tmp_path: Path) -> None:
    kept = record(
        3,
        rows=(RowRecord(id=7, kind="decode", row=1, lead_pad=2, end=9, new_tokens=1),),
        tokens=(TokenRecord(7, 42, "stop"),),
        events=("align: 2 rows",),
    )
    write_jsonl([kept, kept], tmp_path / "trace.jsonl")
    assert read_jsonl(tmp_path / "trace.jsonl") == [kept, kept]
    assert json.loads((tmp_path / "trace.jsonl").read_text().splitlines()[0])["rows"][0]["lead_pad"] == 2


@pytest.mark.parametrize("part", ["16 running, 112 waiting", "#7 decode row 1 live [2,9) +1", "#7:42/stop", "align"])
def test_a_record_reads_as_a_line(part: str) -> None:
    line = str(
        record(rows=(RowRecord(7, "decode", 1, 2, 9, 1),), tokens=(TokenRecord(7, 42, "stop"),), events=("align",))
    )
    assert part in line


def test_an_engine_that_drains_says_how_it_ran() -> None:
    from teachkv import LLM, SamplingParams

    lines: list[str] = []
    with LLM("tiny", log=lines.append) as llm:
        llm.generate(["one", "two"], SamplingParams(max_tokens=3, temperature=0, ignore_eos=True))  # both end together
    assert [line for line in lines if line.startswith("2 running, 0 waiting, 0 resident; prefill ")]
