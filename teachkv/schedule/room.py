"""Seats and memory: who may come in, who must give way. Nothing here changes anything."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from teachkv.schedule.entry import Entry
from teachkv.schedule.limits import Limits
from teachkv.schedule.queue import QueueState


class Shortage(NamedTuple):
    """Who gives its memory back (newest first), and who cannot be served at all."""

    victims: tuple[Entry, ...] = ()
    unfit: tuple[Entry, ...] = ()

    @property
    def gone(self) -> tuple[Entry, ...]:
        return self.victims + self.unfit


def fits(limits: Limits, entries: Sequence[Entry], slack: int = 0) -> bool:
    """Do these entries fit together, each able to grow by `slack` columns more than its claim?"""
    if limits.budget is None:
        return True
    lengths = [entry.claim + slack for entry in entries]
    staging = [entry.claim for entry in entries if entry.phase != "decode"]
    return limits.budget.fits(lengths, staging)


def shortage(state: QueueState, limits: Limits) -> Shortage:
    """Only the memory may cost a request its place; losing a bucket contest never does."""
    if limits.budget is None:
        return Shortage()
    if not state.seats:
        first = next(state.queue(), None)
        return Shortage(unfit=(first,)) if first is not None and not fits(limits, [first]) else Shortage()
    if fits(limits, state.seats):
        return Shortage()
    if not fits(limits, state.seats[:1]):
        return Shortage(unfit=(state.seats[0],))
    kept, victims = list(state.seats), []
    for _ in state.seats[1:]:
        # guard[victim]: the newest gives way, so the oldest always advances and the work lost is the least
        # origin: EricLBuehler/mistral.rs#2250
        # mutant[victim/oldest-first]:
        #   - victims.append(kept.pop())
        #   + victims.append(kept.pop(0))
        victims.append(kept.pop())
        if fits(limits, kept):
            break
    return Shortage(victims=tuple(victims))


def admissible(state: QueueState, limits: Limits) -> Iterator[Entry]:
    """Waiting requests that may get a seat now, first come first; the first one that does not fit holds the rest.

    Lazy: the caller takes as many as it has use for, and pays for no more than that.
    """
    # guard[seat-limit]: the limit holds for every step, also for the first after an idle time
    # origin: the parent engine, read in its sources
    # mutant[seat-limit/cold-path-limit]:
    #   - free = limits.max_num_seqs - len(state.seats)
    #   + free = limits.max_num_seqs - len(state.seats) if state.running else len(state.entries)
    # mutant[seat-limit/ignored]:
    #   - free = limits.max_num_seqs - len(state.seats)
    #   + free = len(state.entries)
    free = limits.max_num_seqs - len(state.seats)
    inside = list(state.seats) if limits.budget is not None else []
    for entry in state.queue():
        if free == 0:
            return
        # guard[resume-headroom]: without room to grow, a request that came back is preempted again at once
        # origin: vllm-project/vllm#25538
        # mutant[resume-headroom/removed]:
        #   - slack = limits.resume_headroom if entry.preemptions and inside else 0
        #   + slack = 0
        slack = limits.resume_headroom if entry.preemptions and inside else 0
        # guard[reserve]: prompt + 1 columns are claimed here and stay claimed while the prompt is computed
        # origin: tenstorrent/vllm-tt-plugin#133
        # mutant[reserve/not-asked]:
        #   - if not fits(limits, [*inside, entry], slack):
        #   + if not fits(limits, inside, slack):
        if not fits(limits, [*inside, entry], slack):
            return
        if limits.budget is not None:
            inside.append(entry)
        free -= 1
        yield entry
