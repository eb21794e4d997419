"""teachkv as a target: requests go in one by one while the engine steps, so that arrivals can be open loop."""

import dataclasses
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_kernels.common.signatures import Joined
from cuda_kernels.registry import OPS, Ops
from teachkv.assembly import Assembly, assemble
from teachkv.bench.pulse import pulse
from teachkv.bench.samples import Facts, Step
from teachkv.bench.sources import packages_hash, versions
from teachkv.bench.target import Event
from teachkv.checkpoint import LoadedModel, LoadReport
from teachkv.loading import load
from teachkv.observe import StepRecord
from teachkv.options import EngineOptions
from teachkv.prompts import ParsedPrompt
from teachkv.sample import SamplingParams
from teachkv.sequence import Request
from teachkv.sequence import Sequence as Running
from teachkv.serving import Serving


class EngineTarget:
    """One engine in this process. `root` is the tree that its code was imported from."""

    def __init__(self, model: str, shape: str | None, options: Mapping[str, Any], root: Path) -> None:
        self.lines: list[str] = []
        loaded = random_model(shape) if shape is not None else load(model)
        self.assembly: Assembly = assemble(
            loaded, EngineOptions.parse(dict(options)), log=self.lines.append, trace=True
        )
        self.engine, self.serving, self.root = self.assembly.engine, Serving(self.assembly), root
        self.vocab = loaded.config.vocab_size
        self.avoid: Sequence[int] = sorted(self.engine.roster.limits.eos_ids)
        self.keys: dict[int, int] = {}
        self.ended: list[Event] = []
        self.stamps: list[float] = []
        self.calls = CallCount()
        self.calls_before = self.calls_now = 0
        self.engine.model.ops = self.calls.around(self.engine.model.ops)
        self.sync = synchronizer(self.engine.model.ops.xp)

    def now(self) -> float:
        """A step gives tokens, and has waited for them: there is nothing else to wait for, and a wait for the device
        would hold up the step in flight."""
        return time.perf_counter()

    def pulse(self) -> float:
        return pulse()

    def wait(self, until: float) -> None:
        time.sleep(max(0.0, until - time.perf_counter()))

    def submit(self, key: int, prompt: Sequence[int], out: int, *, stops: bool) -> None:
        params = SamplingParams(max_tokens=out, temperature=0.0, ignore_eos=not stops)
        request = Request(key, ParsedPrompt(None, tuple(prompt)), params)
        self.serving.check(request)
        (running,) = self.serving.start(request)
        self.keys[running.id] = key
        if running.finished:
            self.ended.append(self.event(running, ()))

    def step(self) -> list[Event]:
        done, self.ended = self.ended, []
        if not self.engine.roster.sequences:
            return done
        progress = self.engine.step()
        self.stamps.append(time.perf_counter())
        return done + [self.event(gained.sequence, gained.tokens) for gained in progress]

    def event(self, sequence: Running, tokens: Iterable[int]) -> Event:
        error = None if sequence.error is None else f"{type(sequence.error).__name__}: {sequence.error}"
        return Event(
            self.keys[sequence.id],
            tuple(tokens),
            self.now(),
            finish=sequence.finish_reason,
            error=error,
            cached=sequence.cached,
            success=sequence.finish_reason in ("stop", "length"),
        )

    def idle(self) -> bool:
        return not self.engine.roster.sequences and not self.ended

    def take_steps(self) -> list[Step]:
        self.sync()  # a surplus step may still be running
        trace = self.engine.observer.trace
        assert trace is not None
        records = trace.take()
        self.calls_before, self.calls_now = self.calls_now, self.calls.count
        stamps, self.stamps = self.stamps, []
        return [step_of(record, at) for record, at in zip(records, stamps, strict=True)]

    def facts(self) -> Facts:
        stats, config = self.assembly.stats(), self.assembly.config
        weights = self.engine.model.weights  # as placed on the device, not as loaded
        item = weights.embed.dtype.itemsize
        report = self.assembly.loaded.report
        return Facts(
            path=stats["path"],
            log=tuple(self.lines),
            engaged=stats["engaged"],
            options=dataclasses.asdict(self.assembly.options),
            versions=versions(),
            sources=packages_hash(self.root),
            overlaid=overlaid(self.root),
            model=f"{self.assembly.loaded.name} ({report.kind}{''.join(f'; {note}' for note in report.notes)})",
            weight_bytes=weights.nbytes,
            kv_token_bytes=2 * config.num_layers * config.num_kv_heads * config.head_dim * item,
            peak_bytes=peak_bytes(self.engine.model.ops.xp),
            op_calls=self.calls_now - self.calls_before,
        )


class CallCount:
    """Counts the calls of a backend's operations, the nearest thing to kernel launches that every backend has."""

    def __init__(self) -> None:
        self.count = 0

    def around(self, ops: Ops) -> Ops:
        counted: dict[str, Any] = {name: self.counting(getattr(ops, name)) for name in OPS}
        if ops.joined is not None:
            counted["joined"] = Joined(self.counting(ops.joined.linears), self.counting(ops.joined.gate_up))
        return dataclasses.replace(ops, **counted)

    def counting(self, op: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return op(*args, **kwargs)

        return counted


def step_of(record: StepRecord, at: float) -> Step:
    lengths = [row.end - max(row.lead_pad, 0) for row in record.rows if row.kind == "decode"]
    return Step(
        at,
        record.seconds,
        record.forward_seconds,
        record.running,
        record.waiting,
        record.resident,
        record.prefill_tokens,
        record.decode_tokens,
        kv_tokens=sum(lengths),
        ragged=len(set(lengths)) > 1,
    )


def random_model(name: str) -> LoadedModel:
    """Random weights in a published shape; tokens are ids, so a byte tokenizer will do. Labelled in every report."""
    from teachkv.checkpoint.builtin import random_weights, tiny
    from teachkv.checkpoint.shapes import shape

    config, texts = shape(name), tiny().tokenizer_source
    weights = random_weights(config, seed=0, threads=os.cpu_count() or 1)
    report = LoadReport("random weights", notes=(f"shape of {name}, seed 0",), copied=weights.nbytes)
    return LoadedModel(name, None, config, weights, texts, texts, report)


def synchronizer(xp: Any) -> Callable[[], None]:
    """Waits for the device, if there is one: a launch is not the work that it starts."""
    if xp.__name__ == "cupy":
        wait: Callable[[], None] = xp.cuda.get_current_stream().synchronize
        return wait
    return lambda: None


def peak_bytes(xp: Any) -> int:
    """Most memory so far: of the device's pool, else of this process."""
    if xp.__name__ == "cupy":
        return int(xp.get_default_memory_pool().total_bytes())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def overlaid(root: Path) -> tuple[str, ...]:
    """Files that were imported from another text (a mutant's), relative to the tree."""
    finder = next((f for f in sys.meta_path if type(f).__name__ == "OverlayFinder"), None)
    served: set[str] = getattr(finder, "served", set())
    return tuple(sorted(str(Path(path).relative_to(root.resolve())) for path in served))
