"""Drives a target through warm-up and cell, and writes down what came back and when."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from teachkv.bench.cells import Ask, Cell, prompts
from teachkv.bench.samples import Sample, Served, Step
from teachkv.bench.target import Event, Target


@dataclass(frozen=True, slots=True)
class Probe:
    """A request sent before the cell that is not one of its own: (prompt, out) tokens.

    settle: wait until it has drained. Neither is right, and the guard says so; both exist to replay how it went wrong.
    """

    prompt: int
    out: int
    settle: bool = True


@dataclass(slots=True)
class Going:
    """A request on its way."""

    ask: Ask
    prompt: Sequence[int]
    due: float
    sent: float = 0.0
    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    last: Event | None = None

    def served(self, began: float) -> Served:
        """The record, with times since `began`. A request that never ended has timed out, and is no success."""
        last = self.last or Event(0, (), 0.0, error="timeout: no end was seen", success=False)
        return Served(
            prompt=len(self.prompt),
            out=self.ask.out,
            due=self.due - began,
            sent=self.sent - began,
            times=tuple(at - began for at in self.times),
            digest=hashlib.sha256(" ".join(map(str, self.tokens)).encode()).hexdigest()[:16],
            finish=last.finish,
            error=last.error,
            cached=last.cached,
            success=last.success,
        )


class Driver:
    """Open loop: a request goes out when it is due, whatever the engine is doing; its latency counts from then."""

    def __init__(self, target: Target, limit: float = 600.0) -> None:
        self.target, self.limit = target, limit
        self.going: dict[int, Going] = {}
        self.next_key = 0

    def cell(
        self, cell: Cell, round: int, *, warmup: int = 1, probe: Probe | None = None, kind: str = "timed"
    ) -> Sample:
        """One sample: warm up with requests of the cell's own shape, wait for idle, run."""
        probes = self.warm_up(cell, round, warmup)
        # guard[settled]: an engine may answer before its warm-up is over; the clock starts when nothing runs or waits
        # origin: vllm#34776
        # mutant[settled/starts-at-once]:
        #   - self.drain()
        #   + pass
        self.drain()
        sent = self.send_probe(probe, cell, round) if probe is not None else []
        texts = prompts(cell, self.target.vocab, self.target.avoid, round=round)
        self.target.take_steps()
        before = self.target.pulse()
        idle, began = self.target.idle(), self.target.now()
        going = self.solo(cell, texts) if kind == "solo" else self.run(cell, texts)
        self.drain()
        return Sample(
            arm="",
            cell=cell.name,
            round=round,
            kind=kind,
            served=tuple(one.served(began) for one in going),
            probes=tuple(probes + [one.served(began) for one in sent]),
            idle=idle,
            steps=tuple(since(step, began) for step in self.target.take_steps()),
            pulses=(before, self.target.pulse()),
            facts=self.target.facts(),
        )

    def warm_up(self, cell: Cell, round: int, count: int) -> list[Served]:
        """The first requests of the cell's kind, with prompts of their own, to the end."""
        began = self.target.now()
        few = replace(cell, asks=tuple(replace(ask, at=0.0) for ask in cell.asks[:count]), repeat=False)
        if not few.asks:
            return []
        texts = prompts(few, self.target.vocab, self.target.avoid, round=round, purpose="warm-up")
        return [one.served(began) for one in self.run(few, texts)]

    def send_probe(self, probe: Probe, cell: Cell, round: int) -> list[Going]:
        ask = Ask(probe.prompt, probe.out)
        text = prompts(Cell(cell.name, (ask,)), self.target.vocab, self.target.avoid, round=round, purpose="probe")[0]
        one = Going(ask, text, self.target.now())
        self.send(one, stops=False)
        self.drain() if probe.settle else self.take()
        return [one]

    def run(self, cell: Cell, texts: Sequence[Sequence[int]]) -> list[Going]:
        began = self.target.now()
        going = [Going(ask, text, began + ask.at) for ask, text in zip(cell.asks, texts, strict=True)]
        waiting = sorted(going, key=lambda one: one.due)
        while any(one.last is None for one in going):
            now = self.target.now()
            if now - began > self.limit + max(ask.at for ask in cell.asks):
                break
            while waiting and waiting[0].due <= now:
                self.send(waiting.pop(0), stops=cell.stops)
            if self.target.idle():
                if not waiting:
                    break
                self.target.wait(waiting[0].due)
            else:
                self.take()
        return going

    def solo(self, cell: Cell, texts: Sequence[Sequence[int]]) -> list[Going]:
        """Each request alone in the engine, one after the other."""
        return [
            one
            for ask, text in zip(cell.asks, texts, strict=True)
            for one in self.run(Cell(cell.name, (replace(ask, at=0.0),), stops=cell.stops), [text])
        ]

    def send(self, one: Going, *, stops: bool) -> None:
        one.sent = self.target.now()
        self.going[self.next_key] = one
        self.target.submit(self.next_key, one.prompt, one.ask.out, stops=stops)
        self.next_key += 1

    def take(self) -> None:
        for event in self.target.step():
            one = self.going[event.key]
            one.tokens += event.tokens
            one.times += [event.at] * len(event.tokens)
            if event.finish is not None or event.error is not None:
                one.last = event

    def drain(self) -> None:
        """Nothing of this cell may be left for the next one."""
        began = self.target.now()
        while not self.target.idle() and self.target.now() - began < self.limit:
            self.take()


def since(step: Step, began: float) -> Step:
    return replace(step, at=step.at - began)
