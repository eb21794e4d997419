"""A refusal holds for the rows as they were; one that has given its memory back comes into the batch with new ones."""

import pytest

from teachkv.schedule import Scheduler
from teachkv.schedule.entry import TOGETHER
from tests.schedule.schedule_steps import carry_out, decoders


@pytest.mark.kills("fresh-start/still-alone")
@pytest.mark.parametrize("policy", ["ragged", "packed"])
def test_after_a_preemption_a_refused_row_runs_with_the_others_again(policy: str) -> None:
    scheduler = Scheduler(policy)
    decoders(scheduler, [20, 20, 20])
    scheduler.apply(plan := scheduler.plan())
    assert len(plan.decode) == 3
    assert scheduler.refused(plan) == ()
    assert len(scheduler.plan().decode) == 1
    for id in range(3):
        scheduler.preempted(id)
    assert {entry.level for entry in scheduler.state.entries.values()} == {TOGETHER}
    for _ in range(3):
        plan = carry_out(scheduler)
    assert plan.decode == (0, 1, 2)
