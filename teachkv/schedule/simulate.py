"""A scheduler alone, with a fake model and a fake clock: the whole run of a workload, step by step, as data."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import mean
from typing import Literal

from teachkv.schedule.plan import Plan
from teachkv.schedule.scheduler import Scheduler

Fault = Literal["decode", "prefill", "memory"]


@dataclass(frozen=True, slots=True)
class Job:
    """A request of `prompt` tokens that ends after `out` generated ones; `at` is its arrival on the fake clock."""

    id: int
    prompt: int
    out: int
    at: float = 0.0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One carried-out plan: when it began, what it cost on the fake clock, and how many requests held KV in it."""

    plan: Plan
    time: float
    cost: float
    resident: int


@dataclass(slots=True)
class Life:
    """What happened to one job. Steps are counted from 0; `tokens` lists the step of every generated token."""

    job: Job
    arrived: int
    tokens: list[int] = field(default_factory=list)
    high: int = 0  # positions that were ever computed
    recomputed: int = 0
    prefilled: int = 0
    ended: str = ""

    @property
    def wait(self) -> int:
        """Steps from arrival to the first token, that step included."""
        return self.tokens[0] - self.arrived + 1

    @property
    def longest_gap(self) -> int:
        """The most steps from one token to the next; 1 = it ran in every step."""
        return max((b - a for a, b in zip(self.tokens, self.tokens[1:], strict=False)), default=0)


@dataclass(slots=True)
class Run:
    """A finished simulation."""

    steps: list[Step]
    lives: dict[int, Life]

    @property
    def run_mean(self) -> float:
        return mean(step.plan.running for step in self.steps)

    @property
    def run_max(self) -> int:
        return max(step.plan.running for step in self.steps)

    @property
    def resident_max(self) -> int:
        return max(step.resident for step in self.steps)

    @property
    def prefilled(self) -> int:
        return sum(life.prefilled for life in self.lives.values())

    @property
    def waits(self) -> list[int]:
        return sorted(life.wait for life in self.lives.values() if life.tokens)

    def count(self, *, prefill: bool) -> int:
        """Steps with prompts in them, or steps with decoders only."""
        return sum(bool(step.plan.prefill) == prefill for step in self.steps)

    @property
    def events(self) -> list[str]:
        return [event for step in self.steps for event in step.plan.events]


class Stuck(AssertionError):
    """The scheduler planned nothing although requests are alive, or did not come to an end."""


def simulate(
    scheduler: Scheduler,
    jobs: Iterable[Job],
    *,
    cost: Callable[[Plan], float] = lambda plan: 1.0,
    aborts: Mapping[int, float] | None = None,
    fault: Callable[[Plan], Fault | None] = lambda plan: None,
    limit: int = 100_000,
) -> Run:
    """Run all jobs to their end. `fault` plays the caches: the part of a plan that cannot be formed, or no memory.

    Raises Stuck after `limit` steps, or when a step has nothing to do.
    """
    world = _World(scheduler, aborts or {}, fault)
    todo = sorted(jobs, key=lambda job: job.at)
    clock = 0.0
    while todo or world.alive:
        while todo and todo[0].at <= clock:
            world.arrive(todo.pop(0))
        world.abort_due(clock)
        if not world.alive:
            clock = max(clock, todo[0].at) if todo else clock
            continue
        plan = scheduler.plan()
        if len(world.steps) == limit or not (plan.ids or plan.unfit):
            raise Stuck(f"after {len(world.steps)} steps: {plan}")
        price = cost(plan)
        world.carry_out(plan, clock, price)
        clock += price
    return Run(world.steps, world.lives)


class _World:
    def __init__(
        self, scheduler: Scheduler, aborts: Mapping[int, float], fault: Callable[[Plan], Fault | None]
    ) -> None:
        self.scheduler, self.aborts, self.fault = scheduler, aborts, fault
        self.steps: list[Step] = []
        self.lives: dict[int, Life] = {}
        self.alive: dict[int, Life] = {}

    def arrive(self, job: Job) -> None:
        self.lives[job.id] = self.alive[job.id] = Life(job, arrived=len(self.steps), high=job.cached)
        self.scheduler.add(job.id, job.prompt, job.cached)

    def end(self, id: int, how: str) -> None:
        self.scheduler.finish(id)
        self.alive.pop(id).ended = how

    def abort_due(self, clock: float) -> None:
        for id, when in self.aborts.items():
            if id in self.alive and when <= clock:
                self.end(id, "abort")

    def carry_out(self, plan: Plan, clock: float, price: float) -> None:
        for id in plan.unfit:
            self.end(id, "error")
        self.scheduler.apply(plan)
        fault = self.fault(plan) if plan.ids else None
        hopeless = self.scheduler.refused(plan, fault) if fault in ("decode", "prefill") else ()
        now = len(self.steps)
        self.steps.append(Step(plan, clock, price, self.scheduler.counts()[2]))
        for id in hopeless:
            self.end(id, "error")
        if fault == "memory":
            newest = max(self.scheduler.state.holding, key=lambda holder: self.lives[holder].job.at)
            self.scheduler.preempted(newest)
            return
        if fault != "prefill":  # the refused part does not run, the other one does
            for chunk in plan.prefill:
                self._compute(chunk.id, chunk.start, chunk.count)
                if chunk.last:
                    self._draw(chunk.id, now)
        if fault != "decode":
            for id in plan.decode:
                life = self.alive[id]
                self._compute(id, life.job.prompt + len(life.tokens) - 1, 1, decode=True)
                self._draw(id, now)

    def _compute(self, id: int, start: int, count: int, decode: bool = False) -> None:
        life = self.alive[id]
        life.recomputed += max(0, min(life.high, start + count) - start)
        life.high = max(life.high, start + count)
        life.prefilled += 0 if decode else count
        self.scheduler.computed(id, count)

    def _draw(self, id: int, now: int) -> None:
        life = self.alive[id]
        life.tokens.append(now)
        if len(life.tokens) == life.job.out:
            self.end(id, "length")
        else:
            self.scheduler.appended(id)
