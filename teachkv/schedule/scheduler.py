"""The one door to scheduling: the engine tells lengths and outcomes, and asks for the next plan."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from teachkv.errors import SchedulerError
from teachkv.schedule.bucketed import Bucketed
from teachkv.schedule.entry import ALONE, EXACT, RAGGED, TOGETHER, Entry, Key
from teachkv.schedule.limits import Limits
from teachkv.schedule.packed import Packed
from teachkv.schedule.plan import Plan
from teachkv.schedule.queue import QueueState
from teachkv.schedule.ragged import Ragged

Part = Literal["decode", "prefill"]


class Policy(Protocol):
    """Reads the state and says what runs next; the key says who may run together."""

    def key_of(self, entry: Entry) -> Key: ...

    def plan(self, state: QueueState) -> Plan: ...


POLICIES: dict[str, Callable[[Limits], Policy]] = {"bucketed": Bucketed, "ragged": Ragged, "packed": Packed}


class Scheduler:
    """`plan()` proposes, `apply(plan)` commits; then the engine reports `computed`, `appended`, `finish`.

        plan = scheduler.plan()          # pure: asking twice gives the same plan
        scheduler.apply(plan)            # seats, preemptions and ages change here and nowhere else
        ... run it; on PlanRefused: for id in scheduler.refused(plan): end that request; plan again
        scheduler.computed(id, count)    # positions that hold KV now
        scheduler.appended(id)           # a token was sampled (n tokens with speculation)
        scheduler.finish(id)             # at any time, for any reason

    Raises OptionError for options that the policy does not have, SchedulerError when the engine breaks the order.
    """

    def __init__(self, policy: str, **options: Any) -> None:
        self.limits = Limits.of(policy, options)
        self.policy = POLICIES[policy](self.limits)
        self.state = QueueState(self.policy.key_of)

    def add(self, id: int, prompt_len: int, cached: int = 0) -> None:
        """A new request of `prompt_len` tokens, of which a prefix hit already covers `cached` columns."""
        if id in self.state.entries:
            raise SchedulerError(f"scheduler: request {id} is already here")
        if prompt_len < 1:
            raise SchedulerError(f"scheduler: request {id} has {prompt_len} tokens; a prompt needs at least one")
        _check_hit(id, cached, prompt_len)
        state = self.state
        entry = Entry(id, state.arrivals, prompt_len, since=state.step, target=prompt_len, cached=cached)
        state.arrivals += 1
        state.entries[id] = state.fresh[id] = entry

    def hit(self, id: int, cached: int) -> None:
        """The prefix cache covers `cached` columns of a request that has no seat yet (see `upcoming`)."""
        entry = self._entry(id)
        if entry.phase != "waiting":
            raise SchedulerError(f"scheduler: request {id} has a seat already; a prefix hit comes too late")
        _check_hit(id, cached, entry.tokens)
        entry.cached = cached

    def upcoming(self) -> list[int]:
        """Ids that the next plan may give a seat, first come first: the time to look them up in the prefix cache."""
        free = self.limits.max_num_seqs - len(self.state.seats)
        return [entry.id for _, entry in zip(range(free), self.state.queue(), strict=False)]

    def plan(self) -> Plan:
        """The next step. Changes nothing: the same state gives the same plan."""
        return self.policy.plan(self.state)

    def apply(self, plan: Plan) -> None:
        """Commit a plan made from the present state, before it is carried out."""
        state = self.state
        self._check(plan)
        for id in plan.preempt:
            self.preempted(id)
        for id in plan.admit:
            state.seat(state.entries[id])
        state.step += 1
        for id in plan.ids:
            state.entries[id].since = state.step
        state.holding.update(chunk.id for chunk in plan.prefill)
        state.running = dict.fromkeys(plan.ids)
        state.quiet_steps = 0 if plan.prefill else state.quiet_steps + 1
        state.reported.update(plan.events)
        state.noted = ()

    def _check(self, plan: Plan) -> None:
        if plan.step != self.state.step:
            raise SchedulerError(f"scheduler: plan of step {plan.step} at step {self.state.step}; ask for a new one")
        for id in (*plan.preempt, *plan.admit, *plan.ids):
            entry = self.state.entries.get(id) or self._entry(id)
            if entry.phase == "decode" and entry.computed != entry.tokens - 1:
                raise SchedulerError(f"scheduler: request {id} has {entry.computed} of {entry.tokens} tokens computed")

    def computed(self, id: int, count: int) -> None:
        """`count` more positions of this request hold KV."""
        entry = self._seated(id)
        if entry.phase == "prefill" and entry.computed + count > entry.target:
            raise SchedulerError(f"scheduler: request {id} computed {count} tokens past the end of its prompt")
        entry.computed += count
        if entry.phase == "prefill" and entry.computed == entry.target:
            self.state.unplace(entry)
            self.state.prefilled(entry)
            self.state.place(entry)

    def appended(self, id: int, n: int = 1) -> None:
        """`n` tokens were added to this request's text."""
        entry = self._seated(id)
        entry.tokens += n
        if entry.key is not RAGGED:  # every other key holds a length
            self.state.regroup(entry)

    def ending(self, id: int) -> None:
        """Its last token is being drawn: it is not planned again, and keeps its seat and its claim until `finish`."""
        entry = self._seated(id)
        # guard[ending]: planned once more, it would draw a token past its last one
        # mutant[ending/still-planned]:
        #   - self.state.unplace(entry)
        #   - entry.ending = True
        #   + entry.tokens += 1
        self.state.unplace(entry)
        entry.ending = True

    def finish(self, id: int) -> None:
        """Forget a request: done, aborted or failed, with a seat or without."""
        self.state.forget(self._entry(id))

    def preempted(self, id: int) -> None:
        """The engine took this request's memory. It waits again, as a prompt of all its tokens, in its old place."""
        entry, state = self._seated(id), self.state
        state.unseat(entry)
        # guard[fresh-start]: its rows will be new ones, so what was refused to the old ones no longer holds
        # mutant[fresh-start/still-alone]:
        #   - entry.phase, entry.computed, entry.cached, entry.level = "waiting", 0, 0, TOGETHER
        #   + entry.phase, entry.computed, entry.cached = "waiting", 0, 0
        entry.phase, entry.computed, entry.cached, entry.level = "waiting", 0, 0, TOGETHER
        entry.target = entry.tokens
        entry.preemptions += 1
        state.come_back(entry)

    def refused(self, plan: Plan, part: Part | None = None) -> tuple[int, ...]:
        """The caches could not form this plan's batch; `part` says which one (None with two parts: decode is blamed).

        Its rows run by exact length from now on; rows refused at equal length run alone. Returns the ids refused
        alone, which nothing can help: the engine ends them. So the same plan never comes twice.
        """
        blamed = part or ("decode" if plan.decode else "prefill")
        rows = plan.decode if blamed == "decode" else tuple(chunk.id for chunk in plan.prefill)
        self.state.noted = ("exact",)
        entries = [self.state.entries[id] for id in rows if id in self.state.entries]
        certain = part is not None or not (plan.decode and plan.prefill)
        # guard[refused-alone]: of two rows refused together one may have ended since; the other was never tried alone
        # mutant[refused-alone/left-alone]:
        #   - if certain and len(rows) == 1:
        #   + if certain and len(entries) == 1:
        if certain and len(rows) == 1:
            return tuple(entry.id for entry in entries)
        self._separate(entries)
        return ()

    def _separate(self, entries: list[Entry]) -> None:
        mixed = len({entry.tokens for entry in entries if entry.phase == "decode"}) > 1
        for entry in entries:
            self.state.unplace(entry)
            # guard[refused]: a plan that was refused comes back in smaller parts, or the engine would spin on it
            # mutant[refused/forgotten]:
            #   - entry.level = EXACT if mixed else ALONE
            #   + entry.level = TOGETHER
            # mutant[refused/never-alone]:
            #   - entry.level = EXACT if mixed else ALONE
            #   + entry.level = EXACT
            entry.level = EXACT if mixed else ALONE
            self.state.place(entry)

    def counts(self) -> tuple[int, int, int]:
        """(running, waiting, resident): in the last plan and still here; all others; holding KV."""
        running = len(self.state.running)
        return running, len(self.state.entries) - running, len(self.state.holding)

    def _entry(self, id: int) -> Entry:
        if id not in self.state.entries:
            raise SchedulerError(f"scheduler: no request {id}; it was never added, or it has finished")
        return self.state.entries[id]

    def _seated(self, id: int) -> Entry:
        entry = self.state.entries.get(id) or self._entry(id)
        if entry.phase == "waiting":
            raise SchedulerError(f"scheduler: request {id} has no seat, so nothing of it can have run")
        return entry


def _check_hit(id: int, cached: int, tokens: int) -> None:
    if not 0 <= cached < tokens:
        raise SchedulerError(
            f"scheduler: hit of {cached} columns for {tokens} tokens of request {id}; one must be left"
        )
