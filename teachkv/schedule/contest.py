"""The buckets that stand for election in one step, in numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from teachkv.schedule.entry import ONE, Bucket, Entry, Key, by_arrival
from teachkv.schedule.queue import QueueState


class Contender(NamedTuple):
    """One bucket. `priority` is the sum over members of urgency + log2(tokens), in units of 1/65536.

    `oldest` is the step since which its longest waiting member waits, `head` the arrival of its first member.
    No two buckets share a head, so ties always have one answer: the bucket of whoever came first.
    """

    key: Key
    size: int
    priority: int
    oldest: int
    head: int


def by_length(contender: Contender) -> tuple[int, int]:
    return contender.key.length, contender.head


def by_priority(contender: Contender) -> tuple[int, int]:
    return -contender.priority, contender.head


def by_wait(contender: Contender) -> tuple[int, int]:
    return contender.oldest, contender.head


def contenders(state: QueueState, admitted: Sequence[Entry] = (), gone: Sequence[Entry] = ()) -> list[Contender]:
    """All buckets as they stand once `admitted` have joined and `gone` have left. O(changed + buckets)."""
    changed: dict[Key, Bucket] = {}
    leaving = {entry.id for entry in gone}
    for key in [state.key_of(entry) for entry in admitted] + [entry.key for entry in gone if entry.key is not None]:
        if key not in changed:
            changed[key] = state.buckets[key].without(leaving) if key in state.buckets else Bucket()
    for entry in admitted:
        changed[state.key_of(entry)].add(replace(entry, since=state.step))
    untouched = {key: bucket for key, bucket in state.buckets.items() if key not in changed}
    return [_contender(state.step, key, bucket) for key, bucket in (untouched | changed).items() if bucket.count]


def _contender(step: int, key: Key, bucket: Bucket) -> Contender:
    count = bucket.count
    # guard[ageing]: a bucket that keeps losing must win one day, however small it is
    # origin: EricLBuehler/mistral.rs#273
    # mutant[ageing/m27-removed]:
    #   - priority = (count * step - bucket.since) * ONE + bucket.weight
    #   + priority = bucket.weight
    priority = (count * step - bucket.since) * ONE + bucket.weight
    return Contender(key, count, priority, *bucket.edges)


def members(state: QueueState, key: Key, admitted: Sequence[Entry], gone: Sequence[Entry]) -> list[Entry]:
    """The entries of one bucket, first come first."""
    leaving = {entry.id for entry in gone}
    here = list(state.buckets[key].members.values()) if key in state.buckets else []
    joined = [entry for entry in admitted if state.key_of(entry) == key]
    return sorted([e for e in here if e.id not in leaving] + joined, key=by_arrival)
