"""Driving a scheduler by hand: one step at a time, with a model that always succeeds and never ends."""

from teachkv.schedule import Plan, Scheduler


def carry_out(scheduler: Scheduler, plan: Plan | None = None) -> Plan:
    """Apply a plan (or the next one), compute it, append one token to everyone who got logits."""
    plan = plan or scheduler.plan()
    scheduler.apply(plan)
    for chunk in plan.prefill:
        scheduler.computed(chunk.id, chunk.count)
        if chunk.last:
            scheduler.appended(chunk.id)
    for id in plan.decode:
        scheduler.computed(id, 1)
        scheduler.appended(id)
    return plan


def decoders(scheduler: Scheduler, lengths: list[int], cached: list[int] | None = None) -> None:
    """Add requests that decode already: number i has lengths[i] tokens, all but the last one computed.

    They get there as if the prompts had been computed elsewhere, so no decoder grows meanwhile.
    """
    for id, length in enumerate(lengths):
        hit = cached[id] if cached else 0
        scheduler.add(id, length - 1, hit)
        state = scheduler.state
        state.seat(state.entries[id])
        scheduler.computed(id, length - 1 - hit)
        scheduler.appended(id)
        state.holding.add(id)
