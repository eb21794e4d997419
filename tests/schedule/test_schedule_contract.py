"""What the engine may rely on: the order of calls, refusals, events, counts, errors."""

import pytest
from schedule_steps import carry_out, decoders

from teachkv.errors import OptionError, SchedulerError
from teachkv.schedule import Plan, PrefillChunk, Scheduler
from teachkv.schedule.simulate import Job, simulate

POLICIES = ["bucketed", "ragged", "packed"]
SHARING = ["ragged", "packed"]


@pytest.mark.kills("refused/forgotten")
@pytest.mark.parametrize("policy", SHARING)
def test_after_a_refusal_the_rows_run_by_exact_length(policy: str) -> None:
    scheduler = Scheduler(policy)
    decoders(scheduler, [5, 9, 5, 7])
    plan = carry_out_nothing(scheduler)
    assert plan.decode == (0, 1, 2, 3)
    assert scheduler.refused(plan) == ()
    lengths = [5, 9, 5, 7]
    events = []
    for _ in range(12):
        plan = carry_out(scheduler)
        assert len({lengths[id] for id in plan.decode}) == 1
        for id in plan.decode:
            lengths[id] += 1
        events += plan.events
    assert lengths[0] == lengths[2] > 7
    assert events[0] == "exact"
    assert events.count("exact") == 1, "logged once"


@pytest.mark.kills("refused/never-alone")
@pytest.mark.parametrize("policy", POLICIES)
def test_rows_refused_at_equal_length_run_alone_and_one_refused_alone_is_given_up(policy: str) -> None:
    scheduler = Scheduler(policy)
    decoders(scheduler, [5, 5])
    plan = carry_out_nothing(scheduler)
    assert scheduler.refused(plan) == ()
    alone = carry_out_nothing(scheduler)
    assert len(alone.decode) == 1
    assert scheduler.refused(alone) == alone.decode


@pytest.mark.kills("refused-alone/left-alone")
@pytest.mark.parametrize("policy", SHARING)
def test_a_row_refused_beside_one_that_has_ended_since_is_tried_alone_first(policy: str) -> None:
    scheduler = Scheduler(policy)
    decoders(scheduler, [5, 9])
    together = carry_out_nothing(scheduler)
    scheduler.finish(0)
    assert scheduler.refused(together) == ()
    alone = carry_out_nothing(scheduler)
    assert alone.decode == (1,)
    assert scheduler.refused(alone) == (1,)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_plan_whose_rows_have_all_ended_blames_nobody(policy: str) -> None:
    scheduler = Scheduler(policy)
    decoders(scheduler, [5])
    plan = carry_out_nothing(scheduler)
    scheduler.finish(0)
    assert scheduler.refused(plan) == ()


def carry_out_nothing(scheduler: Scheduler) -> Plan:
    plan = scheduler.plan()
    scheduler.apply(plan)
    return plan


@pytest.mark.kills("refused/forgotten", "refused/never-alone")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("part", ["decode", "prefill", None])
def test_the_same_plan_is_never_tried_twice(policy: str, part: str | None) -> None:
    """Everything of one part (or of any) is refused, always: each request ends, and no work is proposed again."""
    scheduler = Scheduler(policy, **({} if policy == "packed" else {"patience_steps": 9}))
    decoders(scheduler, [5, 9, 9, 12])
    for id in range(10, 15):
        scheduler.add(id, 4 + id % 2)
    tried: set[tuple[object, object]] = set()
    for _ in range(150):
        plan = scheduler.plan()
        blamed = plan.decode if part == "decode" else plan.prefill if part == "prefill" else plan.ids
        if not blamed:
            carry_out(scheduler, plan)
            continue
        assert (plan.decode, plan.prefill) not in tried
        tried.add((plan.decode, plan.prefill))
        scheduler.apply(plan)
        for id in scheduler.refused(plan, part):  # type: ignore[arg-type]
            scheduler.finish(id)
    left = {entry.phase for entry in scheduler.state.entries.values()}
    assert left == ({"decode"} if part == "prefill" else set())


def test_a_decoder_and_a_prompt_refused_together_take_turns() -> None:
    """Nobody knows which of the two was to blame, so neither may be ended, and neither may starve."""
    scheduler = Scheduler("packed", max_num_batched_tokens=4)
    decoders(scheduler, [5])
    scheduler.add(1, 16)
    assert scheduler.refused(carry_out_nothing(scheduler)) == ()
    plans = [carry_out(scheduler) for _ in range(8)]
    assert [bool(plan.decode) for plan in plans] == [True, False] * 4
    assert plans[7].prefill[0].last


def test_a_refused_prompt_runs_with_no_other_prompt_beside_it() -> None:
    scheduler = Scheduler("packed")
    for id in range(3):
        scheduler.add(id, 4)
    plan = carry_out_nothing(scheduler)
    assert len(plan.prefill) == 3
    scheduler.refused(plan)
    assert [tuple(chunk.id for chunk in carry_out(scheduler).prefill) for _ in range(3)] == [(0,), (1,), (2,)]


def test_events_are_told_once_and_only_by_what_acted() -> None:
    jobs = [Job(i, 20 + i // 4, 30) for i in range(40)]
    assert simulate(Scheduler("ragged", coalesce=False), jobs).events == []
    assert simulate(Scheduler("ragged", prefill_floor_steps=10_000), jobs[:4]).events == []
    run = simulate(Scheduler("ragged", prefill_floor_steps=3, prefill_max_seqs=2), jobs)
    assert sorted(run.events) == ["cap", "coalesce", "floor"]


def test_a_rule_that_only_confirms_the_contest_has_not_acted() -> None:
    scheduler = Scheduler("ragged")
    decoders(scheduler, [30] * 40)
    carry_out(scheduler)
    scheduler.add(99, 20)
    plan = scheduler.plan()
    assert (plan.reason, plan.events) == ("coalesce: decode@0", ())


@pytest.mark.parametrize("policy", POLICIES)
def test_counts_follow_what_happens(policy: str) -> None:
    scheduler = Scheduler(policy, max_num_seqs=2)
    for id in range(3):
        scheduler.add(id, 5)
    assert scheduler.counts() == (0, 3, 0)
    plan = carry_out(scheduler)
    assert (plan.running, plan.waiting) == (2, 1)
    assert scheduler.counts() == (2, 1, 2)
    scheduler.preempted(1)
    assert scheduler.counts() == (1, 2, 1)
    scheduler.finish(0)
    scheduler.finish(1)
    assert scheduler.counts() == (0, 1, 0)
    assert scheduler.upcoming() == [2]


def test_a_bucket_that_waits_holds_its_rows() -> None:
    scheduler = Scheduler("bucketed")
    decoders(scheduler, [10, 20])
    carry_out(scheduler)
    assert scheduler.counts() == (1, 1, 2), "one runs, one waits, both hold KV"


def test_a_hit_found_late_changes_the_chunk() -> None:
    scheduler = Scheduler("packed", max_num_seqs=1)
    scheduler.add(0, 10)
    scheduler.add(1, 10)
    assert scheduler.upcoming() == [0]
    scheduler.hit(0, 8)
    assert carry_out(scheduler).prefill == (PrefillChunk(0, 8, 2, last=True),)
    with pytest.raises(SchedulerError, match="has a seat already"):
        scheduler.hit(0, 4)


def test_speculation_may_add_several_tokens_at_once() -> None:
    scheduler = Scheduler("ragged")
    decoders(scheduler, [10, 12])
    plan = carry_out_nothing(scheduler)
    for id, kept in zip(plan.decode, (3, 1), strict=True):
        scheduler.computed(id, kept)
        scheduler.appended(id, kept)
    assert scheduler.plan().decode == (0, 1)
    assert [scheduler.state.entries[id].tokens for id in (0, 1)] == [13, 13]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.add(0, 5), "already here"),
        (lambda s: s.add(9, 0), "at least one"),
        (lambda s: s.add(9, 5, cached=5), "hit of 5 columns"),
        (lambda s: s.finish(9), "no request 9"),
        (lambda s: s.computed(1, 1), "no seat"),
        (lambda s: s.preempted(1), "no seat"),
        (lambda s: s.computed(0, 6), "past the end"),
        (lambda s: s.apply(Plan(step=0)), "plan of step 0 at step 1"),
    ],
)
def test_a_broken_order_of_calls_is_a_typed_error_and_changes_nothing(call: object, words: str) -> None:
    scheduler = Scheduler("bucketed", max_num_seqs=1)
    scheduler.add(0, 5)
    scheduler.add(1, 5)
    scheduler.apply(scheduler.plan())
    before = scheduler.state.snapshot()
    with pytest.raises(SchedulerError, match=words):
        call(scheduler)  # type: ignore[operator]
    assert scheduler.state.snapshot() == before


def test_a_decoder_without_its_token_cannot_run_again() -> None:
    scheduler = Scheduler("packed")
    decoders(scheduler, [5])
    scheduler.computed(0, 1)
    before = scheduler.state.snapshot()
    with pytest.raises(SchedulerError, match="5 of 5 tokens computed"):
        scheduler.apply(scheduler.plan())
    assert scheduler.state.snapshot() == before


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        ("fifo", {}, "unknown policy 'fifo'"),
        ("bucketed", {"coalesce": True}, "no option 'coalesce'"),
        ("packed", {"prefill_floor_steps": 4}, "no option 'prefill_floor_steps'"),
        ("ragged", {"max_num_batched_tokens": 4}, "no option 'max_num_batched_tokens'"),
        ("packed", {"max_num_seqs": 0}, "at least 1"),
        ("packed", {"max_num_batched_tokens": 2.5}, "whole number"),
        ("ragged", {"prefill_floor_steps": -1}, "at least 0"),
        ("ragged", {"prefill_floor_steps": True}, "whole number"),
        ("ragged", {"coalesce": 1}, "True or False"),
    ],
)
def test_options_are_checked_by_policy(policy: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Scheduler(policy, **options)


def test_a_plan_reads_as_one_line() -> None:
    scheduler = Scheduler("packed", max_num_batched_tokens=8)
    decoders(scheduler, [5, 9])
    scheduler.add(2, 30)
    assert str(scheduler.plan()) == "step 0: 3 running, 0 waiting (every decoder); decode 0 1; prefill 2[0:8].."
    assert scheduler.plan().tokens == 10
