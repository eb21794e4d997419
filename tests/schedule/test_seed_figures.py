"""The figures that the seed document and its setting report, from the scheduler alone with a fake model.

The workload is 128 prompts, 16 of each length 64, 128 .. 512, 64 tokens out, 128 seats. Where a rule of the real
scheduler is needed to get a figure, the test says so.
"""

import pytest
from schedule_steps import carry_out, decoders

from teachkv.schedule import Scheduler
from teachkv.schedule.simulate import Job, Run, simulate

SPREAD = [Job(i, length, 64) for i, length in enumerate(sorted(list(range(64, 513, 64)) * 16))]
ALL_DIFFERENT = [Job(i, 16 + i * 518 // 127, 64) for i in range(128)]


def run(policy: str, jobs: list[Job] = SPREAD, **options: object) -> Run:
    result = simulate(Scheduler(policy, max_num_seqs=128, **options), jobs)
    assert all(len(life.tokens) == life.job.out for life in result.lives.values())
    return result


def width(result: Run) -> list[tuple[int, int]]:
    return [(step.plan.running, step.plan.waiting) for step in result.steps]


def test_bucketed_runs_16_and_leaves_112_waiting() -> None:
    result = run("bucketed")
    assert len(result.steps) == 512
    assert (result.count(prefill=True), result.count(prefill=False)) == (8, 504)
    assert width(result).count((16, 112)) >= 0.95 * 512


def test_eight_lengths_decode_one_at_a_time() -> None:
    result = run("bucketed", [Job(i, 64 * (i + 1), 64) for i in range(8)])
    assert len(result.steps) == 8 * 64, "72 would do: 8 prompts, then 64 tokens"
    assert width(result).count((1, 7)) >= 0.95 * 512


def decode(scheduler: Scheduler) -> int:
    """One decode step; returns the number of tokens its first row had, -1 for a prompt step."""
    plan = carry_out(scheduler)
    return scheduler.state.entries[plan.decode[0]].tokens - 1 if plan.decode else -1


def test_two_buckets_two_apart_alternate_and_never_merge() -> None:
    scheduler = Scheduler("bucketed")
    decoders(scheduler, [100] * 32 + [102] * 32)
    seen = [decode(scheduler) for _ in range(200)]
    first = seen.index(100)
    assert seen[first : first + 6] == [100, 102, 101, 103, 102, 104]
    assert {scheduler.counts()[:2] for _ in range(20) if decode(scheduler)} == {(32, 32)}
    assert len(scheduler.state.buckets) == 2


@pytest.mark.kills("ageing/m27-removed")
@pytest.mark.parametrize("policy", ["bucketed", "ragged"])
def test_47_decoders_keep_one_prompt_out_for_450_to_470_steps(policy: str) -> None:
    """Under `ragged` with coalescing off: with it, one prompt never outweighs 47 decoders (the next test)."""
    scheduler = Scheduler(policy, **({"coalesce": False} if policy == "ragged" else {}))
    decoders(scheduler, [499] * 47)
    decode(scheduler)
    scheduler.add(47, 275)
    waited = next(step for step in range(600) if decode(scheduler) == -1)
    assert 450 <= waited <= 470


def test_coalescing_keeps_that_prompt_out_until_its_patience_ends() -> None:
    scheduler = Scheduler("ragged")
    decoders(scheduler, [499] * 47)
    decode(scheduler)
    scheduler.add(47, 275)
    waited = next(step for step in range(2000) if decode(scheduler) == -1)
    assert waited == 513, "one step more than patience_steps"


@pytest.mark.kills("floor/never-forces")
def test_a_floor_lets_that_prompt_in_at_once() -> None:
    scheduler = Scheduler("ragged", prefill_floor_steps=4)
    decoders(scheduler, [499] * 47)
    decode(scheduler)
    for _ in range(10):
        decode(scheduler)
    scheduler.add(47, 275)
    assert decode(scheduler) == -1


@pytest.mark.kills("key/decode-not-pinned", "coalesce/always", "coalesce/never")
@pytest.mark.parametrize(("floor", "peak", "steps"), [(0, 48, 323), (4, 128, 95), (16, 96, 156)])
def test_ragged_peaks_as_reported(floor: int, peak: int, steps: int) -> None:
    result = run("ragged", prefill_floor_steps=floor)
    assert (result.run_max, len(result.steps)) == (peak, steps)


def test_with_all_lengths_different_no_floor_reaches_128() -> None:
    for floor in (0, 1, 4, 16):
        for coalesce in (True, False):
            result = run("ragged", ALL_DIFFERENT, prefill_floor_steps=floor, coalesce=coalesce)
            assert result.run_max < 128


@pytest.mark.parametrize("jobs", [SPREAD, ALL_DIFFERENT])
@pytest.mark.parametrize("budget", [1024, 2048, 4096])
def test_packed_has_all_128_running_within_prompt_tokens_over_budget(jobs: list[Job], budget: int) -> None:
    """At a budget of 512 it takes 72 steps to compute all prompts; the first requests, 64 tokens long, end before."""
    result = run("packed", jobs, max_num_batched_tokens=budget)
    within = -(-sum(job.prompt for job in jobs) // budget)
    reached = next(i for i, step in enumerate(result.steps, 1) if step.plan.running == 128)
    assert reached <= within
    assert result.resident_max == 128


def test_packed_at_512_computes_all_prompts_in_time_though_the_first_have_left() -> None:
    result = run("packed", max_num_batched_tokens=512)
    within = -(-sum(job.prompt for job in SPREAD) // 512)
    assert max(i for i, step in enumerate(result.steps, 1) if step.plan.prefill) == within == 72
    assert result.run_max < 128
