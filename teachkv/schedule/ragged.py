"""The seed's change: decoders of any length share one bucket; prompts still need equal lengths."""

from teachkv.schedule.bucketed import exact_key
from teachkv.schedule.contest import by_length
from teachkv.schedule.entry import RAGGED, TOGETHER, Entry, Key
from teachkv.schedule.limits import Limits
from teachkv.schedule.one_bucket import Choice, Field, one_bucket_plan, overdue
from teachkv.schedule.plan import Plan
from teachkv.schedule.queue import QueueState

MERGE_WORTH = 256  # steps of waiting, summed over everyone else, that one member of a catching-up bucket may cost


def ragged_key(entry: Entry, can_be_ragged: bool) -> Key:
    """One key for all decoders that may share a batch, the exact key for everything else."""
    pinned = can_be_ragged and entry.level == TOGETHER
    # guard[key]: rows of different length are one batch in decode only; prompts of one bucket are equally long
    # origin: the seed document
    # mutant[key/decode-not-pinned]:
    #   - return RAGGED if pinned and entry.phase == "decode" else exact_key(entry)
    #   + return exact_key(entry)
    # mutant[key/prompt-pinned]:
    #   - return RAGGED if pinned and entry.phase == "decode" else exact_key(entry)
    #   + return RAGGED._replace(kind="decode" if entry.phase == "decode" else "prompt") if pinned else exact_key(entry)
    return RAGGED if pinned and entry.phase == "decode" else exact_key(entry)


class Ragged:
    """Decodes everyone at once, admits prompts one length at a time: the second limiter that the seed names."""

    name = "ragged"

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def key_of(self, entry: Entry) -> Key:
        return ragged_key(entry, self.limits.can_be_ragged)

    def plan(self, state: QueueState) -> Plan:
        """Age before the floor, the floor before coalescing, and only then the contest."""
        return one_bucket_plan(state, self.limits, (overdue, floor, coalesce))


def floor(field: Field) -> Choice | None:
    """After `prefill_floor_steps` steps without a prompt the shortest prompt bucket runs: 4 gives one step in five."""
    prompts = [contender for contender in field.contenders if contender.key.kind == "prompt"]
    if not field.limits.prefill_floor_steps or not prompts:
        return None
    # guard[floor]: many decoders outscore a fresh prompt by their number, whatever its age
    # origin: the seed document
    # mutant[floor/never-forces]:
    #   - due = field.quiet_steps >= field.limits.prefill_floor_steps
    #   + due = False
    # mutant[floor/one-late]:
    #   - due = field.quiet_steps >= field.limits.prefill_floor_steps
    #   + due = field.quiet_steps > field.limits.prefill_floor_steps
    due = field.quiet_steps >= field.limits.prefill_floor_steps
    return Choice(min(prompts, key=by_length), "floor", "floor") if due else None


def coalesce(field: Field) -> Choice | None:
    """The shortest bucket runs on if catching up with the next longer one costs the others little enough.

    Decoders count as length 0, so once enough of them run, this holds every prompt back until the cohort thins out.
    """
    if not field.limits.coalesce or field.one_side:
        return None
    shortest = min(field.contenders, key=by_length)
    longer = [c.key.length for c in field.contenders if c.key.length > shortest.key.length]
    if not longer:
        return None
    cost = (field.total - shortest.size) * (min(longer) - shortest.key.length)
    # guard[coalesce]: waiting for a merge must not cost more than the merge is worth
    # origin: the seed document
    # mutant[coalesce/always]:
    #   - worth = cost <= shortest.size * MERGE_WORTH
    #   + worth = cost >= 0
    # mutant[coalesce/never]:
    #   - worth = cost <= shortest.size * MERGE_WORTH
    #   + worth = False
    worth = cost <= shortest.size * MERGE_WORTH
    return Choice(shortest, "coalesce", "coalesce") if worth else None
