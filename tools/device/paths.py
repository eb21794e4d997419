"""One request by every path a position can be computed on: whole prefill, chunks, a copied prefix, decode steps.

Logits [T, V] of a whole prefill are the reference; every other path is compared with it as integers, position by
position. Then the engine itself: cold, chunked, with prefix hits, and computed anew after preemption.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from teachkv import LLM, SamplingParams
from teachkv.checkpoint import LoadedModel
from teachkv.model import Model
from teachkv.prompts import ParsedPrompt
from teachkv.sequence import Request
from tools.device.engines import engine_of
from tools.device.shelf import Shelf, run

DECODED = 24  # tokens at the end that are decoded one by one


def by_position(model: Model, count: int, longest: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """`count` random texts of up to `longest` tokens through four paths."""
    wrong = {"chunks": 0, "copied prefix": 0, "decode steps": 0}
    compared = dict.fromkeys(wrong, 0)
    shelf = Shelf(model, 4, longest + 3)
    for _ in range(count):
        length = int(rng.integers(DECODED + 2, longest + 1))
        text = rng.integers(0, model.config.vocab_size, length).tolist()
        shelf.poison()
        whole = run(model, shelf.part("prefill", [0], [0], [0], [length]), text, np.arange(length))
        prefix = int(rng.integers(1, length - 1))
        shelf.take(shelf, [0, 0], [2, 3], [0, 3], [prefix, length - DECODED])
        chunked = in_chunks(model, shelf, text, rng)
        rest = shelf.part("prefill", [2], [0], [prefix], [length - prefix])
        copied = run(model, rest, text[prefix:], np.arange(length - prefix))
        stepped = in_steps(model, shelf, text)
        for name, found in (("chunks", chunked), ("copied prefix", copied), ("decode steps", stepped)):
            wrong[name] += int((found != whole[length - len(found) :]).sum())
            compared[name] += len(found)
    rows = [
        {"check": "paths", "of": f"whole prefill = {name}", "positions": compared[name], "different": wrong[name]}
        for name in wrong
    ]
    print(*rows, sep="\n", flush=True)
    return rows


def in_chunks(model: Model, shelf: Shelf, text: list[int], rng: np.random.Generator) -> Any:
    """Logits [T, V] of the text in chunks of random length, in row 1."""
    found, start = [], 0
    while start < len(text):
        count = min(int(rng.integers(1, 200)), len(text) - start)
        part = shelf.part("prefill", [1], [0], [start], [count])
        found.append(run(model, part, text[start : start + count], np.arange(count)))
        start += count
    return model.ops.xp.concatenate(found)


def in_steps(model: Model, shelf: Shelf, text: list[int]) -> Any:
    """Logits of the last tokens, one decode step each, in row 3 behind three dead columns."""
    return model.ops.xp.concatenate(
        [
            run(model, shelf.part("decode", [3], [3], [at], [1]), text[at : at + 1], [0])
            for at in range(len(text) - DECODED, len(text))
        ]
    )


WANTED = SamplingParams(max_tokens=24, temperature=0, ignore_eos=True, logprobs=20, logprobs_mode="raw_logits")
COMMON: dict[str, Any] = {"max_model_len": 1024, "max_num_seqs": 32, "kv_budget": 4 << 30}


def by_engine(loaded: LoadedModel, backend: str, count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Tokens and the raw logits of the 20 likeliest, step by step, against each request cold and alone."""
    stems = [rng.integers(0, loaded.config.vocab_size, 150).tolist() for _ in range(4)]
    prompts = [
        stems[i % 4] + rng.integers(0, loaded.config.vocab_size, int(rng.integers(1, 350))).tolist()
        for i in range(count)
    ]
    common = COMMON | {"backend": backend}
    with engine_of(loaded, **common, enable_prefix_caching=False) as llm:
        cold = [facts(llm.generate([prompt], WANTED)[0].outputs[0]) for prompt in prompts]
    with engine_of(loaded, **common, enable_prefix_caching=False, overlap=False) as llm:
        anew, times = preempted(llm, prompts)  # from outside: that no step may be in flight
    with engine_of(loaded, **common, enable_prefix_caching=False, max_num_batched_tokens=96) as llm:
        chunked = [facts(output.outputs[0]) for output in llm.generate(prompts, WANTED)]
    with engine_of(loaded, **common) as llm:
        llm.generate(prompts, WANTED)
        hits = [facts(output.outputs[0]) for output in llm.generate(prompts, WANTED)]
        known = llm.stats()["prefix"].hit_tokens
    rows = [
        {"check": "paths", "of": f"engine, cold = {name}", "requests": count, "different": differing(cold, found)}
        for name, found in (("chunked in a batch", chunked), ("prefix hit", hits), ("preempted", anew))
    ]
    rows[1] |= {"tokens from the prefix cache": known}
    rows[2] |= {"preemptions": times}
    for row in rows:
        row["distinct"] = len({str(tokens) for tokens, _ in cold})
        print(row, flush=True)
    return rows


def preempted(llm: LLM, prompts: list[list[int]]) -> tuple[list[Any], int]:
    """All requests together; every third step the newest gives its rows back and is computed anew later."""
    serving, times = llm._alive(), 0
    samples = [
        serving.start(Request(i, ParsedPrompt(None, tuple(prompt)), WANTED))[0] for i, prompt in enumerate(prompts)
    ]
    steps, roster = 0, serving.engine.roster
    while not all(sample.finished for sample in samples):
        serving.engine.step()
        steps += 1
        if steps % 3 == 0 and len(roster.resident) > 1 and times < 5 * len(prompts):
            roster.give_way()
            times += 1
    return [facts_of_sample(sample) for sample in samples], times


def facts(output: Any) -> tuple[Any, ...]:
    return tuple(output.token_ids), [sorted((t, p.logprob) for t, p in step.items()) for step in output.logprobs]


def facts_of_sample(sample: Any) -> tuple[Any, ...]:
    return tuple(sample.generated), [sorted((t, p.logprob) for t, p in step.items()) for step in sample.logprobs]


def differing(wanted: list[Any], found: list[Any]) -> int:
    return sum(a != b for a, b in zip(wanted, found, strict=True))
