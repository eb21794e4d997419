"""The parent's dense scheduler: only requests of exactly equal length run together, one such bucket per step."""

from teachkv.schedule.entry import ALONE, Entry, Key
from teachkv.schedule.limits import Limits
from teachkv.schedule.one_bucket import one_bucket_plan, overdue
from teachkv.schedule.plan import Plan
from teachkv.schedule.queue import QueueState


def exact_key(entry: Entry) -> Key:
    """('prompt' or 'decode', tokens - 1), for prompts also the offset of a prefix hit."""
    alone = entry.id if entry.level == ALONE else -1
    if entry.phase == "decode":
        # guard[decode-key]: once the prompt is computed, how much of it came from a prefix hit means nothing
        # origin: the parent engine, read in its sources
        # mutant[decode-key/offset-kept-in-key]:
        #   - return Key("decode", entry.tokens - 1, 0, alone)
        #   + return Key("decode", entry.tokens - 1, entry.cached, alone)
        return Key("decode", entry.tokens - 1, 0, alone)
    return Key("prompt", entry.tokens - 1, entry.cached, alone)


class Bucketed:
    """Ages its losers and never mixes lengths: a spread of lengths decodes a few at a time while the rest waits."""

    name = "bucketed"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def key_of(self, entry: Entry) -> Key:
        return exact_key(entry)

    def plan(self, state: QueueState) -> Plan:
        return one_bucket_plan(state, self.limits, (overdue,))
