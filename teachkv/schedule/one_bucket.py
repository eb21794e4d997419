"""The frame of the policies that run one bucket per step: make room, let in, choose, write the plan."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from teachkv.schedule.contest import Contender, by_length, by_priority, by_wait, contenders, members
from teachkv.schedule.entry import Entry
from teachkv.schedule.limits import Limits
from teachkv.schedule.plan import Plan, PrefillChunk
from teachkv.schedule.queue import QueueState
from teachkv.schedule.room import Shortage, admissible, shortage


class Field(NamedTuple):
    """What a policy chooses from. `total` is the number of seated requests."""

    step: int
    quiet_steps: int
    limits: Limits
    contenders: list[Contender]
    total: int
    one_side: bool  # only waiting or only running requests exist


class Choice(NamedTuple):
    contender: Contender
    reason: str
    event: str = ""


Rule = Callable[[Field], Choice | None]


def first_rule(field: Field, rules: Sequence[Rule]) -> Choice:
    """The first rule with an answer, else the contest. A rule acts only where the contest would say otherwise."""
    usual = shortest_or_greatest(field)
    for rule in rules:
        choice = rule(field)
        if choice is not None:
            return choice if choice.contender != usual.contender else choice._replace(event="")
    return usual


def overdue(field: Field) -> Choice | None:
    """The bucket of whoever has waited longer than `patience_steps`; every other rule can be outrun by newcomers."""
    first = min(field.contenders, key=by_wait)
    # guard[overdue]: shortest-first and coalescing ignore age, so somebody must watch it
    # origin: EricLBuehler/mistral.rs#273
    # mutant[overdue/removed]:
    #   - waited = field.step - first.oldest
    #   + waited = 0
    waited = field.step - first.oldest
    return Choice(first, "waited too long", "overdue") if waited > field.limits.patience_steps else None


def shortest_or_greatest(field: Field) -> Choice:
    """The parent's rule: let the short ones catch up when nobody competes, else the greatest sum wins."""
    if field.one_side or len(field.contenders) == 1:
        return Choice(min(field.contenders, key=by_length), "shortest")
    return Choice(min(field.contenders, key=by_priority), "greatest sum")


def one_bucket_plan(state: QueueState, limits: Limits, rules: Sequence[Rule]) -> Plan:
    """Reads the state, changes nothing."""
    short = shortage(state, limits)
    admitted, held_back = ([], False) if short.gone else _admitted(state, limits)
    field = _field(state, limits, admitted, short)
    if not field.contenders:
        return write_plan(state, short, admitted, (), (), "nothing can run", ())
    choice = first_rule(field, rules)
    chosen = members(state, choice.contender.key, admitted, short.gone)
    # guard[kind]: a decoder that lost a contest is still a decoder; its KV is there and need not be computed again
    # origin: the parent engine, read in its sources
    # mutant[kind/decoder-demoted]:
    #   - prompts = choice.contender.key.kind == "prompt"
    #   + prompts = choice.contender.key.kind == "prompt" or not state.running
    prompts = choice.contender.key.kind == "prompt"
    starting = _started(chosen, limits) if prompts else []
    prefill = tuple(_whole(entry) for entry in starting)
    decode = () if prompts else tuple(entry.id for entry in chosen)
    events = (("cap",) if held_back or (prompts and starting != chosen) else ()) + (
        (choice.event,) if choice.event else ()
    )
    return write_plan(state, short, admitted, decode, prefill, f"{choice.reason}: {choice.contender.key}", events)


def _admitted(state: QueueState, limits: Limits) -> tuple[list[Entry], bool]:
    # guard[cap]: prompts that come in together run together, and a step of prompts cannot be interrupted
    # origin: the seed document
    # mutant[cap/ignored]:
    #   - cap = limits.prefill_max_seqs
    #   + cap = 0
    cap = limits.prefill_max_seqs
    could = list(islice(admissible(state, limits), cap + 1 if cap else None))
    return (could[:cap], len(could) > cap) if cap else (could, False)


def _started(chosen: list[Entry], limits: Limits) -> list[Entry]:
    """Prompts let in one pass after another may pile up in one bucket: the first come run, the rest keep waiting."""
    # guard[cap-step]: a cap on admission alone lets a starved bucket grow without limit
    # mutant[cap-step/ignored]:
    #   - return chosen[: limits.prefill_max_seqs or None]
    #   + return chosen
    return chosen[: limits.prefill_max_seqs or None]


def _field(state: QueueState, limits: Limits, admitted: Sequence[Entry], short: Shortage) -> Field:
    still_running = len(state.running) - sum(entry.id in state.running for entry in short.gone)
    everyone = len(state.entries) - len(short.unfit)
    total = len(state.seats) + len(admitted) - sum(entry.phase != "waiting" for entry in short.gone)
    found = contenders(state, admitted, short.gone)
    return Field(state.step, state.quiet_steps, limits, found, total, still_running in (0, everyone))


def _whole(entry: Entry) -> PrefillChunk:
    start = entry.cached if entry.phase == "waiting" else entry.computed
    return PrefillChunk(entry.id, start, entry.target - start, last=True)


def write_plan(
    state: QueueState,
    short: Shortage,
    admitted: Sequence[Entry],
    decode: tuple[int, ...],
    prefill: tuple[PrefillChunk, ...],
    reason: str,
    events: tuple[str, ...],
) -> Plan:
    """Count who runs and who waits, and keep only the events that have not been told yet."""
    # guard[deferred]: losing a contest costs a turn, never the memory; only a real shortage preempts
    # origin: EricLBuehler/mistral.rs#2024
    # mutant[deferred/m28-losers-preempted]:
    #   - preempt = tuple(entry.id for entry in short.victims)
    #   + preempt = tuple(e.id for e in state.seats if e.computed and e.id not in decode)
    preempt = tuple(entry.id for entry in short.victims)
    events = state.noted + (("preempt",) if preempt else ()) + events
    running = len(decode) + len(prefill)
    return Plan(
        step=state.step,
        decode=decode,
        prefill=prefill,
        preempt=preempt,
        running=running,
        waiting=len(state.entries) - running,
        reason=reason,
        events=tuple(event for event in events if event not in state.reported),
        admit=tuple(entry.id for entry in admitted),
        unfit=tuple(entry.id for entry in short.unfit),
    )
