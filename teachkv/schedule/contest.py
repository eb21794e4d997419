"""The buckets that stand for election in one step, in numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from teachkv.schedule.entry import ONE, Entry, Key, by_arrival, log2_fixed
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
    """All buckets as they stand once `admitted` have joined and `gone` have left. O(seats), whoever waits outside."""
    leaving = {entry.id for entry in gone}
    standing = {key: [e for e in bucket.values() if e.id not in leaving] for key, bucket in state.buckets.items()}
    for entry in admitted:
        standing.setdefault(state.key_of(entry), []).append(replace(entry, since=state.step))
    return [_contender(state.step, key, entries) for key, entries in standing.items() if entries]


def _contender(step: int, key: Key, entries: list[Entry]) -> Contender:
    since, weight = [entry.since for entry in entries], sum(log2_fixed(entry.tokens) for entry in entries)
    # guard[ageing]: a bucket that keeps losing must win one day, however small it is
    # origin: EricLBuehler/mistral.rs#273
    # mutant[ageing/m27-removed]:
    #   - priority = (len(entries) * step - sum(since)) * ONE + weight
    #   + priority = weight
    priority = (len(entries) * step - sum(since)) * ONE + weight
    return Contender(key, len(entries), priority, min(since), min(map(by_arrival, entries)))


def members(state: QueueState, key: Key, admitted: Sequence[Entry], gone: Sequence[Entry]) -> list[Entry]:
    """The entries of one bucket, first come first."""
    here = list(state.buckets.get(key, {}).values())
    if gone:
        leaving = {entry.id for entry in gone}
        here = [entry for entry in here if entry.id not in leaving]
    return sorted(here + [entry for entry in admitted if state.key_of(entry) == key], key=by_arrival)
