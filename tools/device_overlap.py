"""Overlap on against overlap off on a GPU: answers and log-probs bit for bit, then speed, the two by turns.

python -m tools.device_overlap --out FOLDER [--batches 1 8 32 128]
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from teachkv import LLM, SamplingParams
from teachkv.observe import Observer
from tools.device.engines import machine, shaped

SHAPE, OUT, TURNS = "qwen2.5-0.5b", 64, 5
GREEDY = SamplingParams(max_tokens=OUT, temperature=0, ignore_eos=True)
WAYS = {
    "greedy": GREEDY,
    "sampled, stop strings": SamplingParams(max_tokens=OUT, temperature=0.8, seed=1, stop=["e", "a"]),
    "sampled, end tokens": SamplingParams(
        max_tokens=OUT, temperature=1.5, seed=2, stop_token_ids=list(range(20_000))
    ),
}  # fmt: skip
OPTIONS: dict[str, Any] = {"max_model_len": 2048, "seed": 3, "kv_budget": 40 << 30, "enable_prefix_caching": False}


def answers(llm: LLM, prompts: list[list[int]], way: SamplingParams) -> list[Any]:
    """Everything a caller can see. Every eighth request asks for log-probs, which are read one step late."""
    wanted = [replace(way, logprobs=2 if place % 8 == 0 else None) for place in range(len(prompts))]
    outs = [o.outputs[0] for o in llm.generate(prompts, wanted)]
    return [(o.token_ids, o.text, o.finish_reason, repr(o.logprobs)) for o in outs]


def timed(llm: LLM, prompts: list[list[int]]) -> dict[str, float]:
    """The greedy answers once more: tokens per second, and the median step that only decodes, in ms."""
    llm._alive().engine.observer = Observer(None, keep=True)
    began = time.perf_counter()
    llm.generate(prompts, GREEDY)
    seconds = time.perf_counter() - began
    steps = [r for r in llm.trace.records if not r.prefill_tokens and r.running == len(prompts)]
    return {"tok_per_s": len(prompts) * OUT / seconds, "step_ms": median(r.seconds for r in steps) * 1e3}


def compared(engines: dict[str, LLM], batch: int) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    prompts = [rng.integers(300, 100_000, int(n)).tolist() for n in np.linspace(16, 534, batch)]
    found = {name: {how: answers(llm, prompts, way) for how, llm in engines.items()} for name, way in WAYS.items()}
    different = {name: sum(a != b for a, b in zip(one["off"], one["on"], strict=True)) for name, one in found.items()}
    ended = {name: sum(answer[2] == "stop" for answer in one["on"]) for name, one in found.items()}
    turns = [{how: timed(llm, prompts) for how, llm in engines.items()} for _ in range(TURNS)]
    row: dict[str, Any] = {"batch": batch, "prompts": "16..534", "different": different, "ended by a token": ended}
    for how in engines:
        for what in ("tok_per_s", "step_ms"):
            samples = [round(turn[how][what], 4) for turn in turns]
            row[f"{what}, {how}"] = {"median": median(samples), "samples": samples}
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128])
    args = parser.parse_args()
    record: dict[str, Any] = {"date": time.strftime("%Y-%m-%d")} | machine() | {"shape": SHAPE, "cells": []}
    with shaped(SHAPE, overlap=False, **OPTIONS) as off, shaped(SHAPE, overlap=True, **OPTIONS) as on:
        for batch in args.batches:
            record["cells"].append(compared({"off": off, "on": on}, batch))
            sys.stdout.write(json.dumps(record["cells"][-1]) + "\n")
            args.out.joinpath("gpu-overlap.json").write_text(json.dumps(record, indent=1) + "\n")
    return int(any(sum(cell["different"].values()) for cell in record["cells"]))


if __name__ == "__main__":
    sys.exit(main())
