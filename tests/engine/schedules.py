"""Random schedules: joins, leaves, aborts, chunk sizes, prefix hits, preemption, guesses. Each request must come out as
it does alone: same tokens, and log-probs of the whole vocabulary equal to the last bit.

    python -m tests.engine.schedules --count 1000 --smollm2 50 --record docs/evidence/ragged-equals-solo.json
"""

import argparse
import hashlib
import json
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from teachkv import LLM, SamplingParams
from teachkv.prompts import ParsedPrompt
from teachkv.sequence import Request
from tests.toys import FAMILIES, write_tiny

Facts = tuple[Any, ...]
CACHES = ("incremental", "rebuild")


@dataclass
class Job:
    """One request of a schedule: when it arrives, and after how many steps it is aborted (None: never)."""

    prompt: tuple[int, ...]
    params: SamplingParams
    arrives: int
    abort_after: int | None = None


@dataclass
class Tally:
    """What the schedules covered. `completions` holds digests of distinct ones: fewer than four prove nothing."""

    schedules: int = 0
    requests: int = 0
    aborted: int = 0
    mechanisms: dict[str, int] = field(default_factory=dict)
    completions: set[str] = field(default_factory=set)

    def verdict(self) -> str:
        return "EQUAL" if len(self.completions) >= 4 else "CANNOT-ANSWER: fewer than four distinct completions"


def tiny_models(folder: Path) -> Iterator[str]:
    """All families; windows on and off, grouped heads, a head dim of its own, tied and untied."""
    for family in FAMILIES:
        yield str(write_tiny(folder / family, family, max_position_embeddings=2048))
        changes: dict[str, Any] = {"head_dim": 12, "tie_word_embeddings": True, "num_hidden_layers": 3}
        if family in ("qwen2", "qwen3"):
            changes |= {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}
        if family == "mistral":
            changes["sliding_window"] = 5
        yield str(write_tiny(folder / f"{family}-2", family, seed=1, max_position_embeddings=2048, **changes))


def random_options(rng: np.random.Generator) -> dict[str, Any]:
    policy = str(rng.choice(["packed", "packed", "ragged", "bucketed"]))
    options: dict[str, Any] = {
        "policy": policy,
        "batch_cache": str(rng.choice(CACHES)),
        "max_num_seqs": int(rng.integers(1, 9)),
        "speculative_tokens": int(rng.choice([0, 0, 2, 5])),
        "enable_prefix_caching": bool(rng.integers(0, 4)),
        "poison": True,
    }
    options["overlap"] = not options["speculative_tokens"] and bool(rng.integers(2))
    if policy == "packed":
        options["max_num_batched_tokens"] = int(rng.choice([1, 7, 33, 60, 512, 1500]))
    if policy == "ragged":
        options["prefill_floor_steps"] = int(rng.choice([0, 1, 4]))
        options["prefill_max_seqs"] = int(rng.choice([0, 1, 3]))
        options["coalesce"] = bool(rng.integers(0, 2))
    if options["batch_cache"] == "rebuild":
        options["strip"] = str(rng.choice(["deferred", "eager"]))
    return options


def random_jobs(rng: np.random.Generator, vocab: int, most: int, logprobs: int) -> list[Job]:
    """Prompts share beginnings and repeat themselves, so that prefix hits and right guesses happen."""
    stems = [rng.integers(2, vocab, int(rng.integers(1, 50))) for _ in range(3)]
    jobs = []
    for index in range(int(rng.integers(2, most + 1))):
        parts = [stems[int(rng.integers(0, 3))], rng.integers(2, vocab, int(rng.integers(1, 40)))]
        prompt = tuple(int(t) for t in np.concatenate(parts if rng.integers(0, 3) else parts[1:] * 2))
        sampled = {"temperature": 0.8, "top_k": 20, "seed": index} if rng.integers(0, 2) else {"temperature": 0.0}
        params = SamplingParams(max_tokens=int(rng.integers(1, 24)), ignore_eos=True, logprobs=logprobs, **sampled)
        abort = int(rng.integers(1, 12)) if rng.integers(0, 6) == 0 else None
        jobs.append(Job(prompt, params, int(rng.integers(0, 20)), abort))
    return jobs


def crowd(rng: np.random.Generator, vocab: int, logprobs: int) -> tuple[list[Job], dict[str, Any]]:
    """Rows that outgrow a block of 512 columns together, with memory for some of them: the newest must give way."""
    jobs = []
    for index in range(int(rng.integers(4, 7))):
        prompt = tuple(int(t) for t in rng.integers(2, vocab, int(rng.integers(495, 506))))
        params = SamplingParams(max_tokens=20, temperature=0.8, seed=index, ignore_eos=True, logprobs=logprobs)
        jobs.append(Job(prompt, params, int(rng.integers(0, 2))))
    options = {
        "max_num_seqs": 8,
        "max_num_batched_tokens": 2000,
        "batch_cache": str(rng.choice(CACHES)),
        "overlap": bool(rng.integers(2)),
        "poison": True,
    }
    return jobs, options


def tight_budget(model: str, options: dict[str, Any], jobs: list[Job], rng: np.random.Generator) -> int:
    """Bytes that hold the longest request alone, and little more."""
    longest = max(len(job.prompt) + (job.params.max_tokens or 0) for job in jobs) + 8
    with LLM(model, **options) as llm:
        return int(llm._alive().engine.cache.bytes_for([longest], [longest]) * rng.uniform(1.0, 1.3))


def facts(sample: Any) -> Facts:
    return tuple(sample.generated), sample.finish_reason, sample.logprobs


def alone(llm: LLM, job: Job) -> Facts:
    serving = llm._alive()
    sample = serving.start(Request(0, ParsedPrompt(None, job.prompt), job.params))[0]
    while not sample.finished:
        serving.engine.step()
    return facts(sample)


def together(llm: LLM, jobs: list[Job]) -> list[Any]:
    """Run the schedule; returns the samples, those of aborted jobs too."""
    serving = llm._alive()
    roster = serving.engine.roster
    samples: dict[int, Any] = {}
    started: dict[int, int] = {}
    step = 0
    while len(samples) < len(jobs) or roster.sequences:
        for index, job in enumerate(jobs):
            if index not in samples and job.arrives <= step:
                samples[index] = serving.start(Request(index, ParsedPrompt(None, job.prompt), job.params))[0]
                started[index] = step
            if index in samples and job.abort_after is not None and step - started[index] == job.abort_after:
                roster.abort(samples[index].id)
        if roster.sequences:
            serving.engine.step()
        step += 1
        assert step < 5000, "the schedule does not end"
    return [samples[index] for index in range(len(jobs))]


def check_schedule(model: str, seed: int, tally: Tally, *, most: int = 8, vocab: int = 97, logprobs: int = -1) -> None:
    """Raises AssertionError that names model, seed and request if one is not as it is alone."""
    rng = np.random.default_rng(seed)
    jobs, fixed = crowd(rng, vocab, logprobs) if seed % 9 == 8 else (random_jobs(rng, vocab, most, logprobs), {})
    with LLM(model, policy="bucketed", enable_prefix_caching=False, max_num_seqs=1, seed=0) as llm:
        solo = [alone(llm, job) for job in jobs]
    options = fixed or random_options(rng)
    if fixed or rng.integers(0, 3) == 0:
        options["kv_budget"] = tight_budget(model, options, jobs, rng)
    with LLM(model, seed=0, **options) as llm:
        samples = together(llm, jobs)
        roster, stats = llm._alive().engine.roster, llm.stats()
        assert (roster.resident, roster.scheduler.counts()) == (set(), (0, 0, 0)), (
            f"seed {seed}: something stayed behind"
        )
    for index, (job, sample, expected) in enumerate(zip(jobs, samples, solo, strict=True)):
        got, where = facts(sample), f"{model}, seed {seed}, request {index}, options {options}"
        if sample.finish_reason == "abort" and job.abort_after is not None:
            count = len(got[0])
            assert got[0] == expected[0][:count], where
            assert got[2] == expected[2][:count], where
            tally.aborted += 1
        else:
            assert got == expected, where
        tally.completions.add(hashlib.sha256(repr(got[0]).encode()).hexdigest())
    note(tally, stats, jobs)


def note(tally: Tally, stats: dict[str, Any], jobs: list[Job]) -> None:
    tally.schedules += 1
    tally.requests += len(jobs)
    for name, count in stats["engaged"].items():
        tally.mechanisms[name] = tally.mechanisms.get(name, 0) + count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--smollm2", type=int, default=0)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    began, tallies = time.time(), {"tiny": Tally(), "smollm2": Tally()}
    with tempfile.TemporaryDirectory() as folder:
        models = list(tiny_models(Path(folder)))
        for number in range(args.count):
            check_schedule(models[number % len(models)], args.first_seed + number, tallies["tiny"])
            if sys.stderr.isatty() or number % 50 == 49:
                print(f"\r{number + 1}/{args.count} schedules", end="", file=sys.stderr, flush=True)
    for number in range(args.smollm2):
        check_schedule("smollm2", args.first_seed + number, tallies["smollm2"], most=4, vocab=40_000, logprobs=5)
        print(f"\rsmollm2 {number + 1}/{args.smollm2}", end="", file=sys.stderr, flush=True)
    record = {
        "what": "each request of a random schedule against its solo run: tokens and log-probs bit for bit",
        "command": f"python -m tests.engine.schedules --count {args.count} --smollm2 {args.smollm2}",
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}",
        "seconds": round(time.time() - began),
        **{
            name: {
                "verdict": tally.verdict(),
                "schedules": tally.schedules,
                "requests": tally.requests,
                "aborted": tally.aborted,
                "distinct_completions": len(tally.completions),
                "mechanisms": dict(sorted(tally.mechanisms.items())),
            }
            for name, tally in tallies.items()
            if tally.schedules
        },
    }
    text = json.dumps(record, indent=1) + "\n"
    if args.record is not None:
        args.record.write_text(text)
    print("\n" + text)
    return int(any(t.schedules and t.verdict() != "EQUAL" for t in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
