"""Figures against hand-made stamps, where every one is known."""

from dataclasses import replace

import pytest
from fakes import facts, served_as, step, whole

from teachkv.bench.metrics import figures, percentile, tpot, ttft
from teachkv.bench.workloads import cell

TWO = cell("uniform-2:prompt=10,out=3")


def test_every_figure_of_a_hand_made_sample() -> None:
    served = (
        served_as(10, 3, due=1.0, sent=1.5, times=(2.0, 2.5, 4.0), cached=5),
        served_as(10, 3, due=1.0, sent=1.0, times=(3.0, 3.5, 5.0)),
    )
    steps = (
        step(seconds=1.0, running=2, waiting=1, prefill=20, decode=0),
        step(seconds=0.5, running=1, waiting=0, prefill=0, decode=2, kv_tokens=100),
        step(seconds=2.0, running=2, prefill=10, decode=10, kv_tokens=50),
    )
    made = figures(
        whole(TWO, served=served, steps=steps, facts=facts(weight_bytes=1000, kv_token_bytes=10, op_calls=60))
    )
    assert made.seconds == 4.0  # first due to last token
    assert made.tok_s == pytest.approx(6 / 4.0)
    assert made.prefill_tok_s == pytest.approx(30 / 2.0)  # the mixed step is split by its tokens
    assert made.decode_tok_s == pytest.approx(12 / 1.5)
    assert (made.ttft[50], made.ttft[99]) == (1.0, 2.0)
    assert (made.tpot[50], made.itl[50], made.itl[99]) == (1.0, 0.5, 1.5)
    assert made.bytes_s == pytest.approx((3 * 1000 + 150 * 10) / 3.5)
    assert (made.run_mean, made.run_max, made.wait_max) == (pytest.approx(5 / 3), 2, 1)
    assert made.cached == 0.25
    assert made.ops_per_token == 10.0
    assert made.step_s == 1.0


@pytest.mark.kills("intended-arrival/from-sending")
def test_latency_counts_from_when_the_request_was_due() -> None:
    assert ttft(served_as(5, 1, due=1.0, sent=4.0, times=(4.5,))) == 3.5


def test_a_failed_request_gives_no_latency_and_no_tokens() -> None:
    good = whole(TWO)
    bad = replace(good, served=(served_as(10, 3, error="x", times=(0.001,)), good.served[1]))
    assert figures(bad).tok_s == pytest.approx(3 / 0.3)
    assert figures(bad).ttft[50] == figures(good).ttft[50]


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(i) for i in range(1, 101)]
    assert [percentile(values, p) for p in (50, 90, 99, 100)] == [50.0, 90.0, 99.0, 100.0]
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0
    assert tpot(served_as(1, 3, times=(1.0, 1.5, 4.0))) == 1.5
