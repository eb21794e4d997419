"""The combined run: every decoder in every step, and beside them as many prompt tokens as the budget allows."""

from collections.abc import Iterable, Iterator

from teachkv.schedule.contest import by_wait, contenders, members
from teachkv.schedule.entry import TOGETHER, Entry, Key
from teachkv.schedule.limits import Limits
from teachkv.schedule.one_bucket import write_plan
from teachkv.schedule.plan import Plan, PrefillChunk
from teachkv.schedule.queue import QueueState
from teachkv.schedule.ragged import ragged_key
from teachkv.schedule.room import Shortage, admissible, shortage


class Packed:
    """A decoder's next token never waits for a prompt, and a prompt never waits for more tokens than stand before it.

    Where rows cannot be ragged, decoders run by exact length, the bucket that has waited longest first: the first half
    of that promise is then off, and a decoder waits for at most as many steps as there are other lengths.
    """

    name = "packed"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def key_of(self, entry: Entry) -> Key:
        if entry.phase != "decode":
            return Key("prompt", 0)  # prompts of any length and offset share a step
        return ragged_key(entry, self.limits.can_be_ragged)

    def plan(self, state: QueueState) -> Plan:
        short = shortage(state, self.limits)
        decode, reason, alone = self._decode(state, short)
        shares = self._prefill(state, short)
        if alone and shares and state.quiet_steps:
            decode, reason = (), "prompts in turn"
        elif alone:
            shares = []
        admitted = [entry for entry, _ in shares if entry.phase == "waiting"]
        prefill = tuple(_chunk(entry, count) for entry, count in shares)
        return write_plan(
            state, short, admitted, decode, prefill, reason if decode or prefill else "nothing can run", ()
        )

    def _decode(self, state: QueueState, short: Shortage) -> tuple[tuple[int, ...], str, bool]:
        """Rows, why they, and whether they were refused in company: then prompts and they take turns."""
        keys = [key for key in state.buckets if key.kind == "decode"]
        if len(keys) > 1:
            standing = [found for found in contenders(state, (), short.gone) if found.key.kind == "decode"]
            keys = [found.key for found in sorted(standing, key=by_wait)]
        rows = tuple([entry.id for entry in members(state, keys[0], (), short.gone)]) if keys else ()
        if not rows:
            return (), "prompts only", False
        return rows, "every decoder" if len(keys) == 1 else f"longest wait: {keys[0]}", keys[0].alone >= 0

    def _prefill(self, state: QueueState, short: Shortage) -> list[tuple[Entry, int]]:
        gone = {entry.id for entry in short.gone}
        newcomers = iter(()) if gone else admissible(state, self.limits)
        inside = [entry for entry in state.prefilling if entry.id not in gone]
        waiting = len(state.prefilling) + len(state.fresh) + len(state.returning)
        return share(inside, newcomers, self.limits.max_num_batched_tokens, others=waiting > 1)


def share(inside: Iterable[Entry], newcomers: Iterator[Entry], budget: int, others: bool) -> list[tuple[Entry, int]]:
    """How many tokens each prompt gets, first come first; newcomers are asked for only while tokens are left."""
    # guard[chunk-cap]: a short prompt behind a huge one must not wait for all of it
    # origin: ROCm/ATOM#1835
    # mutant[chunk-cap/removed]:
    #   - cap = (budget + 1) // 2 if others else budget
    #   + cap = budget
    cap = (budget + 1) // 2 if others else budget
    shares: list[tuple[Entry, int]] = []
    left = budget
    for entry in _in_turn(inside, newcomers):
        count = min(remaining(entry), cap, left)
        shares.append((entry, count))
        left -= count
        if not left:
            break
    # guard[no-waste]: what nobody else can use goes to the first in line, or the stated bound would not hold
    # mutant[no-waste/removed]:
    #   - return [(entry, count + extra) for (entry, count), extra in zip(shares, _extras(shares, left), strict=True)]
    #   + return shares
    return [(entry, count + extra) for (entry, count), extra in zip(shares, _extras(shares, left), strict=True)]


def _in_turn(inside: Iterable[Entry], newcomers: Iterator[Entry]) -> Iterator[Entry]:
    """Prompts by arrival. One that was refused in company runs alone, when it is first."""
    first = True
    for source in (inside, newcomers):
        for entry in source:
            if entry.level == TOGETHER or first:
                yield entry
            if first and entry.level != TOGETHER:
                return
            first = False


def _extras(shares: list[tuple[Entry, int]], left: int) -> Iterator[int]:
    for entry, count in shares:
        extra = min(remaining(entry) - count, left)
        left -= extra
        yield extra


def remaining(entry: Entry) -> int:
    """Prompt tokens that have no KV yet."""
    return entry.target - (entry.cached if entry.phase == "waiting" else entry.computed)


def _chunk(entry: Entry, count: int) -> PrefillChunk:
    return PrefillChunk(entry.id, entry.target - remaining(entry), count, last=count == remaining(entry))
