"""The policies once more, told with plain lists and no index: slow, obvious, and the oracle of the real ones.

Every function scans all requests. A twin reads a Snapshot and must give the very plan that the policy gives.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from teachkv.schedule.entry import ALONE, ONE, TOGETHER, Entry, log2_fixed
from teachkv.schedule.limits import Limits
from teachkv.schedule.plan import Plan, PrefillChunk
from teachkv.schedule.queue import Snapshot


@dataclass
class Room:
    """Everyone in order of arrival, sorted into who must go, who may come in, and who sits after that."""

    victims: list[Entry]
    unfit: list[Entry]
    newcomers: list[Entry]
    seated: list[Entry]


def make_room(snap: Snapshot, limits: Limits) -> Room:
    seated = [row for row in snap.rows if row.phase != "waiting"]
    queue = [row for row in snap.rows if row.phase == "waiting"]
    victims: list[Entry] = []
    if not _fit(limits, seated):
        if not _fit(limits, seated[:1]):
            return Room([], seated[:1], [], seated[1:])
        while not _fit(limits, seated):
            victims.append(seated.pop())
        return Room(victims, [], [], seated)
    if not seated and queue and not _fit(limits, queue[:1]):
        return Room([], queue[:1], [], [])
    newcomers: list[Entry] = []
    for row in queue:
        inside = seated + newcomers
        growth = limits.resume_headroom if row.preemptions and inside else 0
        if len(inside) >= limits.max_num_seqs or not _fit(limits, [*inside, row], growth):
            break
        newcomers.append(replace(row, since=snap.step))
    return Room([], [], newcomers, seated)


def _fit(limits: Limits, rows: list[Entry], growth: int = 0) -> bool:
    if limits.budget is None or not rows:
        return True
    claims = [max(row.tokens, row.target + 1) for row in rows]
    staging = [claim for claim, row in zip(claims, rows, strict=True) if row.phase != "decode"]
    return limits.budget.fits([claim + growth for claim in claims], staging)


Name = tuple[str, int, int, int]  # what members of one bucket have in common: kind, length, offset, alone


def exact(row: Entry) -> Name:
    alone = row.id if row.level == ALONE else -1
    if row.phase == "decode":
        return "decode", row.tokens - 1, 0, alone
    return "prompt", row.tokens - 1, row.cached, alone


def shared(row: Entry, limits: Limits) -> Name:
    together = limits.can_be_ragged and row.level == TOGETHER and row.phase == "decode"
    return ("decode", 0, 0, -1) if together else exact(row)


def buckets_of(rows: list[Entry], name: Callable[[Entry], Name]) -> list[list[Entry]]:
    names = list(dict.fromkeys(name(row) for row in rows))
    return [[row for row in rows if name(row) == wanted] for wanted in names]


def priority(step: int, bucket: list[Entry]) -> int:
    return sum((step - row.since) * ONE + log2_fixed(row.tokens) for row in bucket)


def one_bucket_twin(snap: Snapshot, limits: Limits, name: Callable[[Entry], Name], ragged: bool) -> Plan:
    """`bucketed` and `ragged`. Lists are in order of arrival, so the first of equals is the one that came first."""
    room = make_room(snap, limits)
    cap = limits.prefill_max_seqs or len(snap.rows)
    held_back = len(room.newcomers) > cap
    room.newcomers = room.newcomers[:cap]
    seats = len(room.seated) + len(room.newcomers)
    here = [row for row in room.seated + room.newcomers if not row.ending]
    candidates = sorted(here, key=lambda row: row.arrival)
    if not candidates:
        return _plan(snap, room, [], [], "nothing can run", [])
    buckets = buckets_of(candidates, name)
    gone = {row.id for row in room.victims + room.unfit}
    running = [row for row in snap.rows if row.id in snap.running and row.id not in gone]
    one_side = len(running) in (0, len(snap.rows) - len(room.unfit))

    shortest = min(buckets, key=lambda bucket: name(bucket[0])[1])
    greatest = max(buckets, key=lambda bucket: priority(snap.step, bucket))
    usual = (shortest, "shortest") if one_side or len(buckets) == 1 else (greatest, "greatest sum")
    chosen, why = usual
    longest_wait = min(buckets, key=lambda bucket: min(row.since for row in bucket))
    if snap.step - min(row.since for row in longest_wait) > limits.patience_steps:
        chosen, why = longest_wait, "waited too long"
    elif ragged and (prompts := _floor(snap, limits, buckets)):
        chosen, why = min(prompts, key=lambda bucket: name(bucket[0])[1]), "floor"
    elif ragged and not one_side and _worth_merging(limits, buckets, shortest, seats, name):
        chosen, why = shortest, "coalesce"
    event = {"waited too long": "overdue", "floor": "floor", "coalesce": "coalesce"}.get(why, "")
    kind, length, offset, alone = name(chosen[0])
    starting = chosen[:cap] if kind == "prompt" else []
    held_back = held_back or (kind == "prompt" and len(chosen) > cap)
    events = ["cap"] * held_back + [event] * (chosen is not usual[0] and event != "")
    label = f"{why}: {kind}@{length}" + (f"+{offset}" if offset else "") + (f" alone {alone}" if alone >= 0 else "")
    decode = chosen if kind == "decode" else []
    prefill = [(row, row.target - _start(row)) for row in starting]
    return _plan(snap, room, decode, prefill, label, events)


def _floor(snap: Snapshot, limits: Limits, buckets: list[list[Entry]]) -> list[list[Entry]]:
    due = 0 < limits.prefill_floor_steps <= snap.quiet_steps
    return [bucket for bucket in buckets if due and bucket[0].phase != "decode"]


def _worth_merging(
    limits: Limits, buckets: list[list[Entry]], shortest: list[Entry], total: int, name: Callable[[Entry], Name]
) -> bool:
    least = name(shortest[0])[1]
    gaps = [name(bucket[0])[1] - least for bucket in buckets if name(bucket[0])[1] > least]
    return limits.coalesce and bool(gaps) and (total - len(shortest)) * min(gaps) <= len(shortest) * 256


def packed_twin(snap: Snapshot, limits: Limits) -> Plan:
    room = make_room(snap, limits)
    decoders = [row for row in room.seated if row.phase == "decode" and not row.ending]
    decode, why = decoders, "every decoder" if decoders else "prompts only"
    buckets = buckets_of(decoders, lambda row: shared(row, limits))
    if len(buckets) > 1:
        decode = min(buckets, key=lambda bucket: min(row.since for row in bucket))
        kind, length, _, alone = shared(decode[0], limits)
        why = f"longest wait: {kind}@{length}" + (f" alone {alone}" if alone >= 0 else "")
    line = [row for row in room.seated if row.phase == "prefill"] + room.newcomers
    if line and line[0].level != TOGETHER:
        line = line[:1]
    if decode and shared(decode[0], limits)[3] >= 0:
        if line and snap.quiet_steps:
            decode, why = [], "prompts in turn"
        else:
            line = []
    line = [row for row in line if row.level == TOGETHER or row is line[0]]

    budget = limits.max_num_batched_tokens
    others = sum(row.phase != "decode" for row in snap.rows) > 1
    cap = -(-budget // 2) if others else budget
    counts = [0] * len(line)
    for limit in (cap, budget):  # first everyone's share, then what is left over, both first come first
        for i, row in enumerate(line):
            want = min(row.target - _start(row), limit) - counts[i]
            counts[i] += max(0, min(want, budget - sum(counts)))
    prefill = [(row, count) for row, count in zip(line, counts, strict=True) if count]
    room.newcomers = [row for row, _ in prefill if row.phase == "waiting"]
    return _plan(snap, room, decode, prefill, why if decode or prefill else "nothing can run", [])


def _start(row: Entry) -> int:
    return row.cached if row.phase == "waiting" else row.computed


def _plan(
    snap: Snapshot, room: Room, decode: list[Entry], prefill: list[tuple[Entry, int]], why: str, events: list[str]
) -> Plan:
    chunks = [PrefillChunk(r.id, _start(r), n, last=_start(r) + n == r.target) for r, n in prefill]
    told = [*snap.noted, *(["preempt"] if room.victims else []), *events]
    running = len(decode) + len(chunks)
    return Plan(
        snap.step,
        decode=tuple(row.id for row in decode),
        prefill=tuple(chunks),
        preempt=tuple(row.id for row in room.victims),
        running=running,
        waiting=len(snap.rows) - running,
        reason=why,
        events=tuple(event for event in told if event not in snap.reported),
        admit=tuple(row.id for row in room.newcomers),
        unfit=tuple(row.id for row in room.unfit),
    )


TWINS: dict[str, Callable[[Snapshot, Limits], Plan]] = {
    "bucketed": lambda snap, limits: one_bucket_twin(snap, limits, exact, ragged=False),
    "ragged": lambda snap, limits: one_bucket_twin(snap, limits, lambda row: shared(row, limits), ragged=True),
    "packed": packed_twin,
}
