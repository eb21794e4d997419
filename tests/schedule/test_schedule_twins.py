"""The indexed policies and the list-scanning twins give the same whole plan in every state that traffic reaches."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teachkv.schedule import ColumnBudget, Plan, Scheduler
from teachkv.schedule.entry import ALONE, ONE, log2_fixed
from teachkv.schedule.twins import TWINS

COMMON = {
    "max_num_seqs": st.integers(1, 8),
    "can_be_ragged": st.sampled_from([True, True, False]),
    "budget": st.sampled_from([None, None, ColumnBudget(12), ColumnBudget(30), ColumnBudget(60)]),
    "resume_headroom": st.integers(0, 3),
}
OPTIONS = {
    "bucketed": COMMON | {"patience_steps": st.sampled_from([3, 512])},
    "ragged": COMMON
    | {
        "patience_steps": st.sampled_from([3, 512]),
        "prefill_floor_steps": st.integers(0, 4),
        "prefill_max_seqs": st.integers(0, 3),
        "coalesce": st.booleans(),
    },
    "packed": COMMON | {"max_num_batched_tokens": st.integers(1, 20)},
}


class Traffic:
    """Random calls in a legal order; every plan on the way is compared."""

    def __init__(self, policy: str, data: st.DataObject) -> None:
        self.data, self.next_id = data, 0
        self.scheduler = Scheduler(policy, **data.draw(st.fixed_dictionaries(OPTIONS[policy])))
        self.twin = TWINS[policy]
        self.left: dict[int, int] = {}
        self.ending: set[int] = set()
        self.seen: Counter[str] = Counter()

    def pick(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def add(self) -> None:
        for _ in range(self.pick(1, 4)):
            prompt = self.pick(1, 12)
            cached = self.pick(0, prompt - 1) if self.pick(0, 2) == 0 else 0
            self.scheduler.add(self.next_id, prompt, cached)
            self.left[self.next_id] = self.pick(1, 12)
            self.next_id += 1

    def abort(self) -> None:
        if self.left:
            self.finish(self.data.draw(st.sampled_from(sorted(self.left))))

    def lose_memory(self) -> None:
        if self.scheduler.state.seats:
            seats = [e.id for e in self.scheduler.state.seats if not e.ending]
            if seats:
                self.scheduler.preempted(self.data.draw(st.sampled_from(seats)))

    def finish(self, id: int) -> None:
        self.scheduler.finish(id)
        self.ending.discard(id)
        del self.left[id]

    def compared(self) -> Plan:
        before = self.scheduler.state.snapshot()
        plan = self.scheduler.plan()
        assert plan == self.scheduler.plan(), "plan() is pure"
        assert before == self.scheduler.state.snapshot(), "plan() changes nothing"
        assert plan == self.twin(before, self.scheduler.limits)
        assert len(set(plan.ids)) == len(plan.ids) == plan.running
        assert not set(plan.ids) & (set(plan.preempt) | set(plan.unfit))
        self.seen.update([plan.reason.split(":")[0], *plan.events])
        self.seen["unfit"] += len(plan.unfit)
        self.seen["hit"] += any(chunk.start and chunk.id in plan.admit for chunk in plan.prefill)
        self.seen["alone"] += any(entry.level == ALONE for entry in self.scheduler.state.seats)
        return plan

    def step(self) -> None:
        if self.ending:
            assert not set(self.compared().ids) & self.ending, "a sequence was planned past its last token"
            for id in list(self.ending):
                self.finish(id)
        plan = self.compared()
        for id in plan.unfit:
            self.finish(id)
        self.scheduler.apply(plan)
        part = None
        if plan.ids and self.pick(0, 9) == 0:
            part = self.data.draw(st.sampled_from([p for p in ("decode", "prefill") if getattr(plan, p)]))
            told = part if self.pick(0, 1) else None
            for id in self.scheduler.refused(plan, told):
                self.finish(id)
        for chunk in plan.prefill if part != "prefill" else ():
            self.scheduler.computed(chunk.id, chunk.count)
            if chunk.last:
                self.token(chunk.id, 1)
        for id in plan.decode if part != "decode" else ():
            accepted = self.pick(1, 3) if self.pick(0, 3) == 0 else 1
            self.scheduler.computed(id, accepted)
            self.token(id, accepted)

    def token(self, id: int, n: int) -> None:
        self.left[id] -= n
        if self.left[id] <= 0 and self.pick(0, 1):
            self.scheduler.ending(id)
            self.ending.add(id)
        elif self.left[id] <= 0:
            self.finish(id)
        else:
            self.scheduler.appended(id, n)


def drive(policy: str, data: st.DataObject) -> Traffic:
    traffic = Traffic(policy, data)
    actions = [traffic.abort, traffic.lose_memory, *[traffic.add] * 2, *[traffic.step] * 8]
    traffic.add()
    for _ in range(40):
        data.draw(st.sampled_from(actions))()
        state = traffic.scheduler.state
        assert len(state.seats) <= traffic.scheduler.limits.max_num_seqs
        assert {e.id for e in state.seats if not e.ending} == {id for b in state.buckets.values() for id in b}
    return traffic


REACHED = {
    "bucketed": {"shortest", "greatest sum", "waited too long", "preempt", "unfit", "exact", "alone", "hit"},
    "ragged": {"shortest", "greatest sum", "waited too long", "floor", "coalesce", "preempt", "cap", "exact", "alone"},
    "packed": {"every decoder", "prompts only", "longest wait", "preempt", "unfit", "exact", "alone", "hit"},
}


@pytest.mark.parametrize("policy", sorted(TWINS))
def test_whole_plans_are_equal(policy: str) -> None:
    """With teeth: the traffic must have reached every rule, or the comparison proves little."""
    seen: Counter[str] = Counter()

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(data=st.data())
    def compare(data: st.DataObject) -> None:
        seen.update(drive(policy, data).seen)

    compare()
    assert set(+seen) >= REACHED[policy]


@pytest.mark.parametrize("policy", sorted(TWINS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_after_a_drain_nothing_is_left(policy: str, data: st.DataObject) -> None:
    traffic = drive(policy, data)
    for id in sorted(traffic.left):
        traffic.finish(id)
    state = traffic.scheduler.state
    leftovers = (state.entries, state.fresh, state.returning, state.seats, state.prefilling, state.buckets)
    assert not any(leftovers)
    assert traffic.scheduler.counts() == (0, 0, 0)
    assert not traffic.scheduler.plan().ids


def test_priorities_are_whole_numbers_close_to_the_logarithm() -> None:
    for n in [*range(1, 3000), 2**17 - 1, 2**17, 2**17 + 1, 10**9]:
        exact = math.log2(n) * ONE
        assert isinstance(log2_fixed(n), int)
        assert exact - 1.001 <= log2_fixed(n) <= exact + 1e-6
    assert [log2_fixed(2**k) for k in range(40)] == [k * ONE for k in range(40)]
