"""Public reports about benchmarks that lied, each at toy size, on the harness itself."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import CELL, in_process, measured, refused, said

from teachkv.bench.arms import fake_arm
from teachkv.bench.drive import Driver
from teachkv.bench.fake import FakeTarget
from teachkv.bench.judge import judge
from teachkv.bench.launch import failed
from teachkv.bench.metrics import figures
from teachkv.bench.roof import timed
from teachkv.bench.samples import Sample
from teachkv.bench.session import Session, Setup, prepare
from teachkv.bench.tables import report, warm
from teachkv.bench.workloads import cell
from teachkv.errors import OptionError

HITS: dict[str, Any] = {"hit_speedup": 4.0, "prefill_tok_s": 500.0}


def target(**script: Any) -> FakeTarget:
    return FakeTarget(script, round=0, position=0, serial=0)


@pytest.mark.case("vllm-project/vllm#52884")
def test_a_second_point_on_a_warm_cache_is_no_faster() -> None:
    """vllm#52884: same engine, same cell, one round later; prompts are new, so no hit helps."""
    driver = Driver(target(**HITS))
    first, second = (figures(driver.cell(cell(CELL), round)) for round in (0, 1))
    assert second.tok_s == pytest.approx(first.tok_s)
    assert second.cached == 0.0


@pytest.mark.case("vllm-project/vllm#52884")
@pytest.mark.kills("warm-cache/silent")
def test_a_row_that_a_cache_helped_says_so(tmp_path: Path) -> None:
    """vllm#52884: the same round twice on one engine does hit, and no row may hide it."""

    def twice(job: dict[str, Any]) -> list[Any]:
        driver = Driver(target(**HITS))
        driver.cell(cell(CELL), job["round"])
        return [driver.cell(cell(CELL), job["round"])]

    record = measured(tmp_path, {"base": HITS}, null=False, rounds=1)
    assert "WARM" not in report(record, judge(record), markdown=False)
    (helped,) = twice({"round": 0})
    assert figures(helped).cached == 1.0
    record.samples = [type(helped)(**{**{n: getattr(helped, n) for n in helped.__slots__}, "arm": "base"})]
    text = report(record, judge(record), markdown=False)
    assert "100% WARM" in text
    first, *others = helped.served
    once = replace(helped, served=(first, *(replace(one, cached=0) for one in others)))
    assert warm(record, [once]) == " WARM"


@pytest.mark.case("vllm-project/vllm#57519")
@pytest.mark.parametrize(
    "script", [{"errors": {"1": "overloaded"}}, {"errors": {"0": "x", "3": "y"}, "claims_ok": True}]
)
def test_in_band_errors_fail_the_run_and_never_improve_a_number(tmp_path: Path, script: dict[str, Any]) -> None:
    """vllm#57519: three arms; the failing one answers faster, and gets no claim for it."""
    record = measured(tmp_path, {"base": {}, "fails": {**script, "tok_s": 5000.0}})
    assert set(refused(record)) >= {("in-band error", "fails"), ("completeness", "fails")}
    assert all(arm != "base" for guard, arm in refused(record) if guard in ("in-band error", "completeness"))
    assert said(record, "fails").status == "refused"


@pytest.mark.case("vllm-project/vllm#57519")
def test_a_short_answer_without_any_error_is_refused(tmp_path: Path) -> None:
    found = refused(measured(tmp_path, {"base": {}, "short": {"short": {"2": 3}}}))
    assert found[("completeness", "short")][0].answer.reason == "33 of 40 tokens came back (0 errors reported)"
    assert ("completeness", "base") not in found
    assert ("equal work", "") in found


@pytest.mark.case("vllm-project/vllm#57519")
def test_a_request_that_never_ends_is_a_timeout_and_no_success(tmp_path: Path) -> None:
    found = refused(measured(tmp_path, {"base": {"hang": [1]}}, null=False))
    assert "timeout" in found[("in-band error", "base")][0].answer.reason


class SlowDevice:
    """Launches return at once; the work is done, one after the other, when somebody waits."""

    def __init__(self) -> None:
        self.queued = 0

    def launch(self) -> None:
        self.queued += 1

    def synchronize(self) -> None:
        until = time.perf_counter() + 0.002 * self.queued
        while time.perf_counter() < until:
            pass
        self.queued = 0


@pytest.mark.case("cupy/cupy#7185")
@pytest.mark.kills("synchronized/launch-only")
def test_a_launch_is_timed_with_its_work() -> None:
    """cupy#7185: two milliseconds of spinning, started by a call that returns at once."""
    device = SlowDevice()
    seconds = timed(device.launch, device.synchronize)
    assert 0.0019 < seconds < 0.02


@pytest.mark.case("cupy/cupy#7185")
@pytest.mark.gpu
def test_a_spin_kernel_of_a_millisecond_measures_a_millisecond() -> None:
    cupy = pytest.importorskip("cupy")
    source = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n) {} }'
    spin = cupy.RawKernel(source, "spin")
    khz = cupy.cuda.runtime.getDeviceProperties(0)["clockRate"]
    wait = cupy.cuda.get_current_stream().synchronize
    seconds = [timed(lambda n=n: spin((1,), (1,), (np.int64(n * khz),)), wait) for n in (1, 11)]
    clock = (seconds[1] - seconds[0]) / 10  # what the device makes of a nominal millisecond at its present clock
    assert seconds[0] == pytest.approx(clock, rel=0.1)


@pytest.mark.case("paradigmxyz/reth#22321")
def test_a_against_a_reports_no_difference_whatever_the_order_costs(tmp_path: Path) -> None:
    """reth#22321, ifc-lite#4288: a drifting clock and a penalty for the first of each round."""
    for world in ({"drift": 0.03}, {"first": 0.2}, {"drift": 0.03, "first": 0.2}):
        record = measured(tmp_path, {"base": world, "same": dict(world)})
        assert said(record, "same").status == "unresolved"
        assert {sample.position for sample in record.samples if sample.arm == "same"} == {0, 1, 2}


@pytest.mark.case("MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#90")
@pytest.mark.kills("settled/starts-at-once")
def test_the_clock_starts_when_the_warm_up_has_left() -> None:
    """vllm#34776: the engine answers, and for five more steps its warm-up takes half of the speed."""
    quiet = figures(Driver(target()).cell(cell(CELL), 0))
    sample = Driver(target(lingers=5)).cell(cell(CELL), 0)
    assert sample.idle
    assert figures(sample).tok_s == pytest.approx(quiet.tok_s)


@pytest.mark.case("NethermindEth/nethermind#12949")
def test_an_engine_that_is_dead_during_warm_up_measures_nothing(tmp_path: Path) -> None:
    """nethermind#12949: failures are fast; a warm-up that counts requests would be over at once."""
    found = refused(measured(tmp_path, {"base": {}, "dead": {"warmup_dead": True}}))
    assert found[("probe purity", "dead")][0].answer.reason == "the warm-up produced 0 of 10 tokens"
    assert ("probe purity", "base") not in found


def test_open_loop_latency_sees_the_queue_that_a_stall_makes() -> None:
    """Requests go on arriving while the engine stands still; each one's wait counts from its own due time."""
    asked = cell("arrivals-40:rate=10,shortest=10,longest=10,out=2")
    smooth, stalled = (Driver(target(stall=stall)).cell(asked, 0) for stall in (0.0, 3.0))
    assert figures(smooth).ttft[99] < 0.1
    waits = [one.times[0] - one.due for one in stalled.served]
    late = [wait for ask, wait in zip(asked.asks, waits, strict=True) if ask.at < 2.9]
    assert len(late) > 15
    assert min(late) > 0.05
    assert max(waits) > 2.5


def test_the_true_figures_are_reported() -> None:
    """1,000 decode and 10,000 prefill tokens per second by script: 4 rows of 50 + 10."""
    made = figures(Driver(target()).cell(cell(CELL), 0))
    assert made.prefill_tok_s == pytest.approx(10_000)
    assert made.decode_tok_s == pytest.approx(1_000)
    assert made.seconds == pytest.approx(4 * 50 / 10_000 + 4 * 9 / 1_000)
    assert made.ttft[50] == pytest.approx(0.02)
    assert made.itl[50] == pytest.approx(0.004)
    assert (made.run_mean, made.run_max) == (4.0, 4)


@pytest.mark.kills("capacity-warm/as-given", "capacity-shared/by-load")
def test_loads_are_shares_of_one_capacity_measured_on_a_warm_engine(tmp_path: Path) -> None:
    """4 requests at once take 0.056 s by script, so 50 % of the capacity is a rate of 35.7 per second. What the engine
    needs to compile is no part of it: on a GPU a cold process had shown a ninth of the capacity of the next one."""
    arms = [fake_arm("base", {"cold": 3.0})]
    cells = tuple(f"arrivals-4:load={load},shortest=50,longest=50,out=10" for load in (0.5, 0.8))
    record = prepare(Setup(cells, rounds=2), arms, tmp_path)
    Session(record, tmp_path / "r.json", in_process, tmp_path, tell=lambda line: None).run()
    rates = [float(name.rpartition("rate=")[2]) for name in record.cells]
    capacity = 4 / (4 * 50 / 10_000 + 4 * 9 / 1_000)
    assert rates == pytest.approx([0.5 * capacity, 0.8 * capacity], rel=1e-4)
    assert [sample.kind for sample in record.samples].count("capacity") == 2
    assert not refused(record)


def test_a_capacity_that_cannot_be_measured_is_told(tmp_path: Path) -> None:
    record = prepare(Setup(("arrivals-4:load=0.5",), rounds=2), [fake_arm("base", {})], tmp_path)

    def dead(job: dict[str, Any]) -> list[Sample]:
        return failed(job, 1, "no word")

    with pytest.raises(OptionError, match="the capacity could not be measured"):
        Session(record, tmp_path / "r.json", dead, tmp_path, tell=lambda line: None).run()
