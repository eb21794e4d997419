"""Admission, shortage, preemption and coming back, with a memory of so many columns."""

from random import Random

import pytest

from teachkv.schedule import ColumnBudget, Plan, Scheduler
from teachkv.schedule.simulate import Job, Run, simulate

POLICIES = ["bucketed", "ragged", "packed"]


class Watched:
    """A budget that remembers what it granted, and checks the columns in use after every step."""

    def __init__(self, policy: str, columns: int, **options: object) -> None:
        self.columns = columns
        self.scheduler = Scheduler(policy, budget=ColumnBudget(columns), **options)

    def run(self, jobs: list[Job], **more: object) -> Run:
        return simulate(self.scheduler, jobs, cost=self.check, **more)

    def check(self, plan: Plan) -> float:
        """Called between plan() and apply(): what stays must have room for all it claims."""
        gone = {*plan.preempt, *plan.unfit}
        entries = self.scheduler.state.entries
        staying = [e for e in self.scheduler.state.seats if e.id not in gone] + [entries[id] for id in plan.admit]
        assert sum(entry.claim for entry in staying) <= self.columns
        return 1.0


@pytest.mark.case("Avarok-Cybersecurity/atlas#375")
def test_three_decoders_and_two_columns_left_cost_one_victim() -> None:
    """atlas#375: one missing block failed the whole batch. The newest gives way, two go on in the same step."""
    scheduler = Scheduler("packed", budget=ColumnBudget(3 * 10 + 2))
    for id in range(3):
        scheduler.add(id, 9)
    plan = scheduler.plan()
    while not plan.preempt:
        assert plan.step < 9, "32 columns were filled long ago"
        scheduler.apply(plan)
        for chunk in plan.prefill:
            scheduler.computed(chunk.id, chunk.count)
            scheduler.appended(chunk.id)
        for id in plan.decode:
            scheduler.computed(id, 1)
            scheduler.appended(id)
        plan = scheduler.plan()
    assert (plan.preempt, plan.decode, plan.admit) == ((2,), (0, 1), ())
    assert plan.events == ("preempt",)


@pytest.mark.case("EricLBuehler/mistral.rs#2033")
@pytest.mark.kills("victim/oldest-first")
@pytest.mark.parametrize("policy", POLICIES)
def test_the_oldest_is_never_a_victim(policy: str) -> None:
    """mistral.rs#2033, #2250: the oldest was preempted first."""
    run = Watched(policy, 40).run([Job(i, 9, 20) for i in range(4)])
    assert not any(0 in step.plan.preempt for step in run.steps)
    assert any(step.plan.preempt for step in run.steps)
    assert run.lives[0].recomputed == 0
    assert all(life.ended == "length" and len(life.tokens) == 20 for life in run.lives.values())


@pytest.mark.kills("arrival-order/preempted-goes-last")
def test_a_preempted_request_keeps_its_place_in_the_queue() -> None:
    run = Watched("packed", 40).run([*(Job(i, 9, 20) for i in range(3)), *(Job(i, 9, 2, at=i) for i in range(3, 30))])
    victims = {id for step in run.steps for id in step.plan.preempt}
    assert victims
    for step in run.steps:
        assert list(step.plan.admit) == sorted(step.plan.admit)
    first_end = {id: life.tokens[-1] for id, life in run.lives.items()}
    assert max(first_end[id] for id in victims) < first_end[29]


@pytest.mark.case("vllm-project/vllm#16832")
def test_it_comes_back_as_a_prompt_of_all_its_tokens() -> None:
    scheduler = Scheduler("packed")
    scheduler.add(7, 10, cached=4)
    plan = scheduler.plan()
    scheduler.apply(plan)
    assert [(c.start, c.count, c.last) for c in plan.prefill] == [(4, 6, True)]
    scheduler.computed(7, 6)
    scheduler.appended(7)
    scheduler.preempted(7)
    assert scheduler.counts() == (0, 1, 0)
    [chunk] = scheduler.plan().prefill
    assert (chunk.start, chunk.count, chunk.last) == (0, 11, True), "prompt + generated; the old hit is void"


@pytest.mark.case("vllm-project/vllm#25538")
@pytest.mark.parametrize("columns", range(20, 32))
@pytest.mark.parametrize("policy", POLICIES)
def test_two_requests_one_column_short_of_both_do_not_thrash(policy: str, columns: int) -> None:
    """vllm#25538: each evicted the other, for ever. Here one always advances, and at most one is computed again."""
    run = Watched(policy, columns).run([Job(0, 8, 9), Job(1, 8, 9)])
    assert sum(len(step.plan.preempt) for step in run.steps) <= 1
    assert sum(life.recomputed for life in run.lives.values()) <= 17
    assert all(life.ended == "length" for life in run.lives.values())


@pytest.mark.case("vllm-project/vllm#25538")
@pytest.mark.kills("resume-headroom/removed")
def test_what_comes_back_has_room_to_grow() -> None:
    """Without headroom a request that comes back beside growing rows is preempted again before it gained anything."""
    jobs = [Job(0, 20, 60), *(Job(i, 12, 30, at=i) for i in range(1, 12))]
    run = Watched("packed", 80, resume_headroom=8).run(jobs)
    preempted = [id for step in run.steps for id in step.plan.preempt]
    assert preempted
    useful = sum(len(life.tokens) for life in run.lives.values())
    assert sum(life.recomputed for life in run.lives.values()) <= 0.6 * useful
    for id in set(preempted):
        assert min(_tokens_between_preemptions(run, id)[1:], default=8) >= 8


def test_headroom_is_asked_only_of_what_comes_back_beside_others() -> None:
    """A new request needs its claim and no more; one that comes back to an empty memory could wait for ever."""
    scheduler = Scheduler("packed", budget=ColumnBudget(20), resume_headroom=8)
    scheduler.add(0, 9)
    scheduler.add(1, 9)
    assert scheduler.plan().admit == (0, 1), "two claims of 10 columns fill the memory"
    alone = Scheduler("packed", budget=ColumnBudget(20), resume_headroom=8)
    alone.add(0, 15)
    alone.apply(alone.plan())
    alone.computed(0, 15)
    alone.appended(0)
    alone.preempted(0)
    assert alone.plan().admit == (0,)


def _tokens_between_preemptions(run: Run, id: int) -> list[int]:
    """Tokens gained in each stay that ended by preemption; the first stay is not one it came back for."""
    gained, stays = 0, []
    for now, step in enumerate(run.steps):
        if id in step.plan.preempt:
            stays.append(gained)
            gained = 0
        gained += now in run.lives[id].tokens
    return stays


@pytest.mark.case("tenstorrent/vllm-tt-plugin#133")
@pytest.mark.kills("reserve/not-asked")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(10))
def test_memory_is_never_oversold_and_everyone_ends_once(policy: str, seed: int) -> None:
    dice = Random(seed)
    jobs = [Job(i, dice.randint(1, 30), dice.randint(1, 25), at=dice.choice([0, i, 2 * i])) for i in range(40)]
    options = {"max_num_batched_tokens": dice.choice([4, 64])} if policy == "packed" else {}
    columns = dice.choice([20, 40, 60])
    run = Watched(policy, columns, max_num_seqs=6, **options).run(jobs, aborts={3: 9.0, 8: 30.0})
    for life in run.lives.values():
        grown = life.job.prompt + max(1, life.job.out - 1)  # prompt + 1 is reserved; the last token is never fed
        assert life.ended == ("abort" if life.ended == "abort" else "length" if grown <= columns else "error")
        assert len(life.tokens) == life.job.out or life.ended != "length"


@pytest.mark.case("tenstorrent/vllm-tt-plugin#133")
@pytest.mark.kills("reserve/not-asked")
def test_a_prompt_in_chunks_keeps_the_room_it_was_admitted_with() -> None:
    """vllm-tt-plugin#133: decode steps between the chunks took the blocks that the prompt was admitted against."""
    jobs = [Job(0, 4, 12), Job(1, 12, 3, at=1), Job(2, 2, 3, at=2)]
    run = Watched("packed", 20, max_num_batched_tokens=4).run(jobs)
    chunks = [chunk for step in run.steps for chunk in step.plan.prefill if chunk.id == 1]
    assert len(chunks) >= 3
    assert run.lives[2].tokens[0] > run.lives[0].tokens[-1] - 12, "the third had to wait for room"
    assert all(life.ended == "length" for life in run.lives.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_that_never_fits_ends_and_the_others_go_on(policy: str) -> None:
    run = Watched(policy, 20).run([Job(0, 5, 5), Job(1, 20, 5), Job(2, 6, 40), Job(3, 5, 5)])
    assert [run.lives[i].ended for i in range(4)] == ["length", "error", "error", "length"]
    assert run.lives[1].tokens == []
    assert len(run.lives[2].tokens) == 15, "6 + 15 tokens would need a 21st column for the next step"


@pytest.mark.case("Avarok-Cybersecurity/atlas#375")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("at", range(25))
def test_an_allocation_that_fails_at_step_n_costs_one_victim(policy: str, at: int) -> None:
    """The engine reports that it had to take the newest one's memory; nobody is lost, and no token either."""
    jobs = [Job(i, 5 + i, 6) for i in range(4)]
    run = simulate(Scheduler(policy), jobs, fault=lambda plan: "memory" if plan.step == at else None)
    assert all(life.ended == "length" and len(life.tokens) == 6 for life in run.lives.values())
    assert sum(life.recomputed > 0 for life in run.lives.values()) <= 1
