"""Known defects of the parent's scheduler: none of them is here, and each is a mutant that a test here kills."""

import pytest
from schedule_steps import carry_out, decoders

from teachkv.schedule import Plan, Scheduler
from teachkv.schedule.simulate import Job, simulate

POLICIES = ["bucketed", "ragged", "packed"]


@pytest.mark.kills("kind/decoder-demoted")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_decoder_that_waits_is_not_computed_again(policy: str) -> None:
    """When the running bucket ends while others wait, the parent took every waiting decoder for a prompt."""
    scheduler = Scheduler(policy)
    decoders(scheduler, [101, 201])
    assert scheduler.counts() == (0, 2, 2), "both wait, nothing runs"
    assert scheduler.plan().prefill == ()
    run = simulate(Scheduler(policy), [Job(0, 100, 3), Job(1, 200, 50)])
    assert run.prefilled == 300
    assert [len(run.lives[i].tokens) for i in range(2)] == [3, 50]


@pytest.mark.case("EricLBuehler/mistral.rs#2024")
@pytest.mark.kills("deferred/m28-losers-preempted")
@pytest.mark.parametrize("policy", ["bucketed", "ragged"])
def test_losing_a_contest_costs_a_turn_and_no_memory(policy: str) -> None:
    run = simulate(Scheduler(policy), [Job(0, 120, 40), Job(1, 50, 40, at=3)])
    assert not any(step.plan.preempt for step in run.steps)
    assert run.prefilled == 170


@pytest.mark.kills("decode-key/offset-kept-in-key")
@pytest.mark.parametrize("policy", ["bucketed", "ragged"])
def test_decoders_merge_whatever_part_of_their_prompts_was_a_prefix_hit(policy: str) -> None:
    """With the offset in the key, eight hits of different length decode one at a time for ever."""
    scheduler = Scheduler(policy, **({"can_be_ragged": False} if policy == "ragged" else {}))
    decoders(scheduler, [64] * 8, cached=[8 * i for i in range(7)] + [3])
    assert len(carry_out(scheduler).decode) == 8


@pytest.mark.parametrize("policy", POLICIES)
def test_only_what_the_hit_does_not_cover_is_computed(policy: str) -> None:
    run = simulate(Scheduler(policy), [Job(i, 64, 4, cached=8 * i) for i in range(8)])
    assert run.prefilled == sum(64 - 8 * i for i in range(8))


def test_prompts_with_different_hits_do_not_share_a_step() -> None:
    run = simulate(Scheduler("bucketed"), [Job(i, 64, 1, cached=8 * (i % 2)) for i in range(8)])
    assert [{chunk.start for chunk in step.plan.prefill} for step in run.steps] == [{0}, {8}]


@pytest.mark.kills("seat-limit/cold-path-limit", "seat-limit/ignored")
@pytest.mark.parametrize("policy", POLICIES)
def test_the_seat_limit_holds_after_an_idle_time_too(policy: str) -> None:
    jobs = [*(Job(i, 10, 5) for i in range(10)), *(Job(i, 10, 5, at=1000) for i in range(10, 20))]
    run = simulate(Scheduler(policy, max_num_seqs=4), jobs)
    assert run.run_max == 4
    assert run.resident_max == 4


@pytest.mark.kills("key/prompt-pinned")
@pytest.mark.parametrize("options", [{}, {"prefill_floor_steps": 2}, {"can_be_ragged": False}])
def test_prompts_of_one_step_are_equally_long(options: dict[str, object]) -> None:
    run = simulate(Scheduler("ragged", **options), [Job(i, 10 + i % 5, 12) for i in range(40)])
    assert all(len({chunk.count for chunk in step.plan.prefill}) <= 1 for step in run.steps)


@pytest.mark.kills("key/decode-not-pinned")
def test_decoders_of_all_lengths_share_a_step() -> None:
    run = simulate(Scheduler("ragged", prefill_floor_steps=1), [Job(i, 10 + 7 * i, 60) for i in range(20)])
    assert max(len(step.plan.decode) for step in run.steps) == 20


def test_the_capability_decides_who_may_share_a_step() -> None:
    jobs = [Job(i, 10 + 50 * i, 40) for i in range(6)]
    for policy in ("ragged", "packed"):
        run = simulate(Scheduler(policy, can_be_ragged=False), jobs)
        assert max(len(step.plan.decode) for step in run.steps) == 1
        run = simulate(Scheduler(policy, can_be_ragged=True), jobs)
        assert max(len(step.plan.decode) for step in run.steps) > 1


@pytest.mark.parametrize("policy", POLICIES)
def test_one_token_prompts_are_not_taken_for_decoders(policy: str) -> None:
    """A pinned key of length 0 is also the key length of a prompt of one token; kinds keep them apart."""
    run = simulate(
        Scheduler(policy), [*(Job(i, 20, 10) for i in range(3)), *(Job(i, 1, 10, at=2) for i in range(3, 6))]
    )
    assert run.prefilled == 63
    for step in run.steps:
        assert not set(step.plan.decode) & {chunk.id for chunk in step.plan.prefill}


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_may_leave_at_any_time(policy: str) -> None:
    for when in range(30):
        jobs = [Job(i, 8 + 3 * i, 6) for i in range(4)]
        run = simulate(Scheduler(policy, max_num_seqs=3), jobs, aborts={1: float(when), 3: float(when)})
        assert all(life.ended in ("length", "abort") for life in run.lives.values())
        assert run.lives[0].ended == run.lives[2].ended == "length"


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_planned_for_nobody(policy: str) -> None:
    scheduler = Scheduler(policy)
    plan = scheduler.plan()
    assert plan == Plan(step=0, reason="nothing can run")
    scheduler.apply(plan)
    assert scheduler.counts() == (0, 0, 0)
