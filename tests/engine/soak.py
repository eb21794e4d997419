"""A long mixed run: random shapes, random aborts, injected failures of allocation. Every request ends exactly once,
every count is right, no thread is left, and the same requests again and again keep no more memory than they did.

    python -m tests.engine.soak --requests 20000 --record docs/evidence/soak.json
"""

import argparse
import gc
import json
import platform
import random
import resource
import sys
import threading
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teachkv import LLM, SamplingParams
from teachkv.prompts import ParsedPrompt
from teachkv.sequence import Request

CHUNK = 500  # requests between two looks at the memory
LEAK_ROUNDS, LEAK_REQUESTS = 6, 250


@dataclass
class Soak:
    """State of the run. `ends` counts how often each sequence was reported as ended: exactly once is right."""

    llm: LLM
    dice: random.Random
    ends: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    faults: int = 0
    memory: list[int] = field(default_factory=list)

    def request(self, number: int) -> Request:
        length = min(1 + int(self.dice.expovariate(1 / 20)), 400)
        prompt = tuple(self.dice.randrange(256) for _ in range(length))
        params = SamplingParams(
            max_tokens=self.dice.choice([0, 1, 2, 5, 9, 16]),
            temperature=self.dice.choice([0.0, 1.0]),
            seed=number,
            ignore_eos=self.dice.random() < 0.8,
            stop=self.dice.choice([None, ["a"], ["zz", "q"]]),
        )
        return Request(number, ParsedPrompt(None, prompt), params)

    def run(self, requests: int) -> None:
        serving = self.llm._alive()
        running: dict[int, Any] = {}
        started = 0
        while started < requests or running:
            while started < requests and len(running) < 24 and self.dice.random() < 0.7:
                sample = serving.start(self.request(started))[0]
                running[sample.id] = sample
                started += 1
                if started % CHUNK == 0 or started == requests:
                    self.memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            if running and self.dice.random() < 0.05:
                serving.engine.roster.abort(self.dice.choice(list(running)))
            if serving.engine.roster.sequences:
                serving.engine.step()
            for id in [id for id, sample in running.items() if sample.finished]:
                self.judge(running.pop(id))
        roster = serving.engine.roster
        if roster.sequences or roster.resident or roster.scheduler.counts() != (0, 0, 0):
            self.wrong.append("something stayed behind")
        if roster.reuse is not None and roster.reuse.prefix.stats().pins:
            self.wrong.append("a prefix block is still pinned")

    def break_forward_sometimes(self, model: Any) -> None:
        """About one pass in fifty fails as an allocation would, half of them after the caches have been written."""
        forward = model.forward

        def failing(*args: Any) -> Any:
            roll = self.dice.random()
            if roll < 0.01:
                self.faults += 1
                raise MemoryError
            logits = forward(*args)
            if roll < 0.02:
                self.faults += 1
                raise MemoryError
            return logits

        model.forward = failing

    def judge(self, sample: Any) -> None:
        self.ends[sample.id] += 1
        self.reasons[sample.finish_reason] += 1
        drawn, wanted = sample.num_generated, sample.request.params.max_tokens
        if sample.finish_reason == "length" and drawn != wanted:
            self.wrong.append(f"request {sample.request.index}: {drawn} tokens of {wanted}, ended by length")
        if drawn > wanted:
            self.wrong.append(f"request {sample.request.index}: {drawn} tokens, {wanted} were asked for")
        if (
            sample.finish_reason == "stop"
            and sample.request.params.ignore_eos
            and not sample.request.params.stop_strings
        ):
            self.wrong.append(f"request {sample.request.index}: stopped, and nothing could stop it")


def soak(requests: int, seed: int, **options: Any) -> dict[str, Any]:
    """Run it and return the record; `wrong` is empty if all is well."""
    with LLM("tiny") as llm:  # the products' helper threads are started once per process and stay
        llm.generate([[1] * 600], SamplingParams(max_tokens=2))
    threads = threading.active_count()
    began = time.time()
    with LLM("tiny", seed=0, max_num_seqs=16, prefix_cache_bytes=4 << 20, poison=True, **options) as llm:
        run = Soak(llm, random.Random(seed))
        run.break_forward_sometimes(llm._alive().engine.model)
        run.run(requests)
        engaged = dict(sorted(llm.stats()["engaged"].items()))
    if set(run.ends.values()) - {1} or len(run.ends) != requests:
        run.wrong.append("a request ended twice, or never")
    if threading.active_count() > threads:
        run.wrong.append("a thread is left")
    return {
        "what": "random requests, aborts, failures; every request ends once, counts are right, nothing leaks",
        "requests": requests,
        "options": options,
        "seconds": round(time.time() - began),
        "ended_by": dict(run.reasons),
        "injected_failures": run.faults,
        "mechanisms": engaged,
        "peak_rss_kib": run.memory,
        "wrong": run.wrong,
    }


def kept(seed: int, **options: Any) -> list[int]:
    """Bytes that Python and NumPy hold after each of several rounds of the same requests, everything having ended."""
    found = []
    tracemalloc.start()
    with LLM("tiny", seed=0, max_num_seqs=16, prefix_cache_bytes=1 << 20, poison=True, **options) as llm:
        run = Soak(llm, random.Random(seed))
        for _ in range(LEAK_ROUNDS):
            run.dice.seed(seed)
            run.run(LEAK_REQUESTS)
            run.ends = Counter()  # what the soak itself remembers is no leak
            gc.collect()
            found.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    runs = []
    for options in (
        {"policy": "packed", "batch_cache": "incremental", "speculative_tokens": 3},
        {"policy": "packed", "batch_cache": "rebuild"},
        {"policy": "ragged", "batch_cache": "incremental", "prefill_floor_steps": 4},
        {"policy": "bucketed", "batch_cache": "rebuild"},
    ):
        runs.append(soak(args.requests // 4, args.seed, **options))
        runs[-1]["kept_bytes_per_round"] = held = kept(args.seed, **options)
        if held[-1] > 1.03 * held[2]:  # the first rounds fill the caches
            runs[-1]["wrong"].append("more is kept after every round")
        print(json.dumps(runs[-1]), file=sys.stderr)
    record = {
        "command": f"python -m tests.engine.soak --requests {args.requests}",
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "runs": runs,
    }
    if args.record is not None:
        args.record.write_text(json.dumps(record, indent=1) + "\n")
    return int(any(run["wrong"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
