"""A scripted engine: its true figures are known, so that what the harness says of it can be judged.

    tok_s      decode tokens per second, all rows together          prefill_tok_s   the same of prompts
    noise      relative, per sample (seeded by arm and round)       drift           slower by this share per process
    first      slower by this share when first of its round         hit_speedup     prefill faster on a seen prefix
    short      request number -> tokens it really returns           errors          request number -> in-band error text
    claims_ok  count failed requests as successes                   hang            request numbers that never end
    path, log, engaged, options, sources: what it says of itself    warmup_dead     answers nothing during warm-up
    stall      seconds, once, before the first step                 same            all completions are alike
    lingers    steps for which warm-up traffic goes on behind it, taking half of the speed
    cold       seconds, more for the first step that has more rows than any before
    slow       round -> factor by which the whole machine is slower then, its pulse too

Time is virtual: nothing sleeps, and a thousand seconds cost none.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teachkv.bench.samples import Facts, Step
from teachkv.bench.target import Event
from teachkv.errors import OptionError

DEFAULTS: dict[str, Any] = {
    "tok_s": 1000.0,
    "prefill_tok_s": 10_000.0,
    "noise": 0.0,
    "drift": 0.0,
    "first": 0.0,
    "hit_speedup": 1.0,
    "short": {},
    "errors": {},
    "claims_ok": False,
    "hang": [],
    "path": None,
    "log": [],
    "engaged": {},
    "options": {},
    "sources": "fake",
    "warmup_dead": False,
    "stall": 0.0,
    "same": False,
    "lingers": 0,
    "cold": 0.0,
    "slow": {},
    "claims": {},
    "engages": [],
}


@dataclass(slots=True)
class Row:
    key: int
    number: int
    left: int
    prompt: tuple[int, ...]
    done: int = 0
    started: bool = False
    cached: int = 0


class FakeTarget:
    """Serves whole batches, a step at a time, on a virtual clock. `serial` counts the processes of the whole run."""

    vocab = 512
    avoid: Sequence[int] = ()

    def __init__(self, script: Mapping[str, Any], round: int, position: int, serial: int) -> None:
        unknown = set(script) - set(DEFAULTS)
        if unknown:
            raise OptionError(f"fake engine: unknown keys {sorted(unknown)}; known: {', '.join(DEFAULTS)}")
        self.script = {**DEFAULTS, **script}
        self.clock, self.rows, self.steps, self.submitted = 0.0, list[Row](), list[Step](), 0
        self.warm, self.offset, self.lingering = False, 0, 0
        self.seen: set[tuple[int, ...]] = set()
        self.widest = 0
        seed = zlib.crc32(f"{self.script['tok_s']} {round} {position}".encode())
        wobble = float(np.random.Generator(np.random.Philox(key=seed)).uniform(-1, 1))
        slower = (1 + self.script["drift"]) ** serial * (1 + (self.script["first"] if position == 0 else 0.0))
        self.machine = float(self.script["slow"].get(str(round), 1.0))
        self.pace = slower * self.machine * (1 + self.script["noise"] * wobble)

    def now(self) -> float:
        return self.clock

    def pulse(self) -> float:
        return 0.01 * self.machine

    def wait(self, until: float) -> None:
        self.clock = max(self.clock, until)

    def submit(self, key: int, prompt: Sequence[int], out: int, *, stops: bool) -> None:
        number, self.submitted = self.submitted - self.offset, self.submitted + 1
        left = int(self.script["short"].get(str(number), out)) if self.warm else out
        self.rows.append(Row(key, number, left, tuple(prompt)))

    def step(self) -> list[Event]:
        if not self.warm and self.script["warmup_dead"]:
            dead, self.rows = self.rows, []
            self.warmed()
            return [Event(row.key, (), self.clock, error="503", success=True) for row in dead]
        if not self.rows:
            self.clock, self.lingering = self.clock + 1.0, self.lingering - 1
            return []
        if self.warm and self.script["stall"]:
            self.clock, self.script["stall"] = self.clock + float(self.script["stall"]), 0.0
        fresh = [row for row in self.rows if not row.started]
        events = self.prefill(fresh) if fresh else self.decode(list(self.rows))
        if not self.rows and not self.warm:
            self.warmed()
        return events

    def warmed(self) -> None:
        """The first requests have ended: from now on the script counts."""
        self.warm, self.offset, self.lingering = True, self.submitted, int(self.script["lingers"])

    def prefill(self, rows: list[Row]) -> list[Event]:
        tokens, seconds = sum(len(row.prompt) for row in rows), 0.0
        for row in rows:
            row.started = True
            faster = float(self.script["hit_speedup"]) if row.prompt in self.seen else 1.0
            seconds += self.pace * len(row.prompt) / float(self.script["prefill_tok_s"]) / faster
            row.cached = len(row.prompt) if row.prompt in self.seen else 0
            self.seen.add(row.prompt)
        return self.tell(rows, seconds, prefill=tokens)

    def decode(self, rows: list[Row]) -> list[Event]:
        return self.tell(rows, self.pace * len(rows) / float(self.script["tok_s"]), prefill=0)

    def tell(self, rows: list[Row], seconds: float, prefill: int) -> list[Event]:
        seconds *= 2 if self.lingering else 1
        if len(rows) > self.widest:
            self.widest, seconds = len(rows), seconds + float(self.script["cold"])
        self.clock += seconds
        lengths = {len(row.prompt) + row.done for row in rows}
        self.steps.append(
            Step(self.clock, seconds, seconds, len(rows), len(self.rows) - len(rows), len(self.rows), prefill,
                 0 if prefill else len(rows), sum(lengths), len(lengths) > 1)
        )  # fmt: skip
        return [event for row in rows for event in self.advance(row)]

    def advance(self, row: Row) -> list[Event]:
        """One token, the end, an error: as the script says."""
        error = self.script["errors"].get(str(row.number)) if self.warm else None
        if self.warm and row.number in self.script["hang"]:
            self.rows.remove(row)  # it neither ends nor answers; the engine looks idle
            return []
        if error is not None or row.left == 0:
            self.rows.remove(row)
            bad = error is not None
            return [Event(row.key, (), self.clock, None if bad else "stop", error, success=self.ok(bad))]
        row.left, row.done = row.left - 1, row.done + 1
        token = row.done if self.script["same"] else (sum(row.prompt) + row.done) % self.vocab
        if row.left == 0:
            self.rows.remove(row)
        return [Event(row.key, (token,), self.clock, "length" if row.left == 0 else None, cached=row.cached)]

    def ok(self, bad: bool) -> bool:
        return not bad or bool(self.script["claims_ok"])

    def idle(self) -> bool:
        return not self.rows and self.lingering <= 0

    def take_steps(self) -> list[Step]:
        steps, self.steps = self.steps, []
        return steps

    def facts(self) -> Facts:
        s = self.script
        return Facts(
            path=s["path"], log=tuple(s["log"]), engaged=s["engaged"], options=s["options"], sources=s["sources"],
            model="fake (scripted)", weight_bytes=1_000_000, kv_token_bytes=1_000,
        )  # fmt: skip
