"""What the policies promise, under arrivals chosen to break it."""

from collections import defaultdict
from itertools import pairwise
from random import Random

import pytest

from teachkv.schedule import Scheduler
from teachkv.schedule.contest import Contender
from teachkv.schedule.entry import Key
from teachkv.schedule.limits import Limits
from teachkv.schedule.one_bucket import Field
from teachkv.schedule.ragged import MERGE_WORTH, coalesce
from teachkv.schedule.simulate import Job, Run, simulate

POLICIES = ["bucketed", "ragged", "packed"]


def passed_over(run: Run) -> int:
    """The most steps in a row that any seated request was not in the plan."""
    last: dict[int, int] = {}
    worst = 0
    for now, step in enumerate(run.steps):
        for id in step.plan.admit:
            last[id] = now - 1
        for id in step.plan.preempt:
            del last[id]
        for id in step.plan.ids:
            worst = max(worst, now - last[id] - 1)
            last[id] = now
    return worst


def stream(old: Job, prompt: int, out: int, steps: int) -> list[Job]:
    """One request, and a short newcomer in every step."""
    return [old, *(Job(i, prompt, out, at=i - 1) for i in range(1, steps + 1))]


@pytest.mark.case("EricLBuehler/mistral.rs#273")
@pytest.mark.kills("ageing/m27-removed")
def test_a_long_request_is_not_starved_by_shorter_newcomers() -> None:
    """mistral.rs#273: shortest first starves old requests. Here its age alone gets it through, long before patience."""
    run = simulate(Scheduler("bucketed", max_num_seqs=16), stream(Job(0, 100, 20), prompt=5, out=8, steps=600))
    assert passed_over(run) <= 64


@pytest.mark.case("EricLBuehler/mistral.rs#273")
@pytest.mark.kills("overdue/removed")
@pytest.mark.parametrize("options", [{}, {"prefill_floor_steps": 4}, {"coalesce": False}])
def test_shortest_first_and_coalescing_cannot_outrun_patience(options: dict[str, object]) -> None:
    """One-token newcomers leave at once, so 'only waiting requests exist' holds for ever and the shortest would win."""
    for policy in ("bucketed", "ragged") if not options else ("ragged",):
        scheduler = Scheduler(policy, max_num_seqs=8, patience_steps=20, **options)
        run = simulate(scheduler, stream(Job(0, 100, 20), prompt=5, out=1, steps=600))
        assert passed_over(run) <= 20 + 8
        assert run.lives[0].wait <= 20 + 8 + 1


@pytest.mark.case("EricLBuehler/mistral.rs#273")
@pytest.mark.kills("overdue/removed", "seat-age/from-arrival")
@pytest.mark.parametrize("policy", ["bucketed", "ragged"])
@pytest.mark.parametrize("seed", range(12))
def test_every_seated_request_runs_within_patience_plus_seats(policy: str, seed: int) -> None:
    """Proof: from `patience` on the longest waiting goes first, and at most seats - 1 others have waited longer."""
    dice = Random(seed)
    lengths = [dice.randint(1, 40) for _ in range(dice.choice([2, 5, 30]))]
    jobs = [Job(i, dice.choice(lengths), dice.choice([1, 1, 2, 30]), at=dice.choice([0, 0, i / 2])) for i in range(150)]
    run = simulate(Scheduler(policy, max_num_seqs=6, patience_steps=9), jobs)
    assert passed_over(run) <= 9 + 6
    assert all(life.ended == "length" for life in run.lives.values())


@pytest.mark.case("EricLBuehler/mistral.rs#2024")
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_incompatible_is_computed_twice(policy: str) -> None:
    """mistral.rs#2024: whoever was not in the chosen bucket lost its memory, and was computed again for ever."""
    run = simulate(Scheduler(policy), [Job(0, 120, 40), Job(1, 50, 40, at=5), Job(2, 70, 3, at=6)])
    assert run.prefilled == 120 + 50 + 70
    assert sum(life.recomputed for life in run.lives.values()) == 0


@pytest.mark.case("EricLBuehler/mistral.rs#2033")
@pytest.mark.kills("arrival-order/m30-reversed")
@pytest.mark.parametrize("policy", POLICIES)
def test_first_come_first_seated(policy: str) -> None:
    """mistral.rs#2033: the newest ran first."""
    run = simulate(Scheduler(policy, max_num_seqs=2), [Job(i, 10, 5) for i in range(7)])
    admitted = [id for step in run.steps for id in step.plan.admit]
    assert admitted == list(range(7))


@pytest.mark.case("sgl-project/sglang#32549")
def test_decoders_of_packed_run_in_every_step_whatever_arrives() -> None:
    """sglang#32549: prefill always won, and one decode step took 24 s."""
    jobs = [Job(0, 30, 400), *(Job(i, 3000, 2, at=i) for i in range(1, 60))]
    run = simulate(Scheduler("packed", max_num_batched_tokens=64), jobs, cost=lambda plan: 0.01 * plan.tokens)
    assert run.lives[0].longest_gap == 1
    assert max(step.cost for step in run.steps) <= 0.01 * (64 + 60), "and no step may be long"


@pytest.mark.case("sgl-project/sglang#32549")
@pytest.mark.kills("chunk-cap/removed")
def test_a_short_prompt_behind_a_huge_one_starts_within_two_steps() -> None:
    """ATOM#1835: a short prompt waited 82 s behind one of 600,000 tokens."""
    jobs = [Job(0, 60_000, 2), Job(1, 10, 2, at=3)]
    run = simulate(Scheduler("packed", max_num_batched_tokens=512), jobs)
    assert run.lives[1].wait <= 2


@pytest.mark.case("sgl-project/sglang#32549")
@pytest.mark.parametrize("budget", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("seed", range(8))
def test_an_admitted_prompt_is_computed_within_the_stated_bound(budget: int, seed: int) -> None:
    """ceil((tokens ahead + own) / budget) steps, and twice that while others wait behind."""
    dice = Random(seed)
    jobs = [Job(i, dice.choice([1, 2, 9, 300]), dice.randint(1, 9), at=i * dice.choice([0, 1, 3])) for i in range(40)]
    run = simulate(Scheduler("packed", max_num_batched_tokens=budget), jobs)
    left: dict[int, int] = {}
    due: dict[int, tuple[int, int]] = {}
    for now, step in enumerate(run.steps):
        for id in step.plan.admit:
            left[id] = run.lives[id].job.prompt
            due[id] = now, sum(left.values())
        for chunk in step.plan.prefill:
            left[chunk.id] -= chunk.count
            if not left[chunk.id]:
                del left[chunk.id]
                began, tokens = due[chunk.id]
                factor = 1 if not any(life.arrived > run.lives[chunk.id].arrived for life in run.lives.values()) else 2
                assert now - began + 1 <= factor * -(-tokens // budget)
    last = max(run.lives)
    assert last in due, "the last one has nobody behind it, so the plain bound was tested"


@pytest.mark.kills("no-waste/removed")
def test_the_whole_budget_is_spent_while_there_is_work() -> None:
    run = simulate(Scheduler("packed", max_num_batched_tokens=10), [Job(0, 95, 1), Job(1, 3, 1)])
    spent = [sum(chunk.count for chunk in step.plan.prefill) for step in run.steps]
    assert spent == [10] * 9 + [8]
    assert [(chunk.id, chunk.count) for chunk in run.steps[0].plan.prefill] == [(0, 7), (1, 3)]


@pytest.mark.case("sgl-project/sglang#32549")
@pytest.mark.kills("floor/never-forces", "floor/one-late")
@pytest.mark.parametrize("floor", [1, 4, 16])
def test_the_floor_gives_one_prompt_step_in_every_n_plus_one(floor: int) -> None:
    """Measured where coalescing would run decoders only: many of them, one prompt length after another."""
    jobs = [Job(i, 20 + 2 * (i // 8), 64) for i in range(128)]
    run = simulate(Scheduler("ragged", prefill_floor_steps=floor), jobs)
    prompts = [now for now, step in enumerate(run.steps) if step.plan.prefill]
    assert len(prompts) == 16
    assert max(b - a for a, b in pairwise(prompts)) == floor + 1


@pytest.mark.kills("cap/ignored", "cap-step/ignored")
def test_the_cap_limits_what_one_pass_lets_in() -> None:
    run = simulate(Scheduler("ragged", prefill_max_seqs=3), [Job(i, 20, 5) for i in range(20)])
    assert max(len(step.plan.admit) for step in run.steps) == 3
    assert max(len(step.plan.prefill) for step in run.steps) == 3
    assert run.events.count("cap") == 1


def test_without_ragged_slots_packed_takes_exact_lengths_in_turn() -> None:
    """The every-step promise is off; what is left is a gap of at most as many steps as there are lengths."""
    lengths = [10, 20, 20, 35, 50]
    run = simulate(Scheduler("packed", can_be_ragged=False), [Job(i, n, 30) for i, n in enumerate(lengths)])
    tokens: dict[int, int] = defaultdict(int)
    for step in run.steps:
        assert len({lengths[id] + tokens[id] for id in step.plan.decode}) <= 1
        for id in (*step.plan.decode, *(chunk.id for chunk in step.plan.prefill if chunk.last)):
            tokens[id] += 1
    assert max(life.longest_gap for life in run.lives.values()) == 4


@pytest.mark.parametrize(("ahead", "waits"), [(MERGE_WORTH, True), (MERGE_WORTH + 1, False)])
def test_a_merge_may_cost_the_others_what_it_is_worth_and_no_more(ahead: int, waits: bool) -> None:
    """One decoder, `ahead` steps behind the only other request."""
    behind, other = (Contender(Key("decode", 8 + more), 1, 0, 0, more) for more in (0, ahead))
    choice = coalesce(Field(0, 0, Limits(), [behind, other], total=2, one_side=False))
    assert (choice is not None and choice.contender == behind) == waits
