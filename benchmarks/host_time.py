"""What the host does per decode step, without the model: `python benchmarks/host_time.py [--profile B] [--overlap]`.

A real engine over 24 layers of tiny rows, whose model returns prepared logits at once and whose sample op returns
tokens at once. What is left is planning, opening and closing caches, inputs, bookkeeping and text.
"""

import argparse
import cProfile
import pstats
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from teachkv import LLM, SamplingParams
from teachkv.assembly import assemble
from teachkv.checkpoint import LoadedModel, LoadReport
from teachkv.checkpoint.builtin import random_weights
from teachkv.checkpoint.byte_tokenizer import byte_tokenizer_files
from teachkv.checkpoint.shapes import SHAPES
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.config import ModelConfig
from teachkv.options import EngineOptions
from teachkv.serving import Serving

STEPS = 100
BATCHES = (1, 8, 32, 128)


class Prepared:
    """Stands in for `Model`: logits that are always the same, nothing computed."""

    def __init__(self, real: Any, ops: Any) -> None:
        self.config, self.ops = real.config, ops
        self.logits = np.zeros((4096, real.config.vocab_size), np.float32)

    def forward(self, tokens: Any, parts: Sequence[Any], logits_at: Any) -> Any:
        return self.logits[: len(logits_at)]


def prepared(**options: Any) -> LLM:
    """An engine of 24 layers around `Prepared`."""
    small = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "vocab_size": 97}
    config = ModelConfig.from_dict({**SHAPES["qwen2.5-0.5b"], **small, "max_position_embeddings": 2048}, source="small")
    texts = MemoryFiles("small", byte_tokenizer_files(None))
    loaded = LoadedModel("small", None, config, random_weights(config, 0), texts, texts, LoadReport("random"))
    fixed = {"seed": 0, "poison": False, "enable_prefix_caching": False, "max_num_batched_tokens": 1 << 14}
    assembly = assemble(loaded, EngineOptions.parse({**fixed, **options}), log=None)
    tokens = (np.arange(4096) % 64 + 20).astype(np.int32)
    ops = replace(assembly.engine.model.ops, sample=lambda logits, *settings: tokens[: len(logits)])
    assembly.engine.model = Prepared(assembly.engine.model, ops)  # type: ignore[assignment]
    llm = LLM.__new__(LLM)
    llm._serving = Serving(assembly)
    return llm


def decode(llm: LLM, batch: int, temperature: float) -> list[float]:
    """Seconds of each pure decode step with `batch` rows of spread lengths."""
    prompts = [[2] * int(n) for n in np.linspace(16, 534, batch)]
    wanted = SamplingParams(max_tokens=STEPS, temperature=temperature, ignore_eos=True)
    step, seconds = llm._alive().engine.step, []

    def timed() -> Any:
        began = perf_counter()
        progress = step()
        seconds.append(perf_counter() - began)
        return progress

    llm._alive().engine.step = timed  # type: ignore[method-assign]
    llm.generate(prompts, wanted)
    llm._alive().engine.step = step  # type: ignore[method-assign]
    return seconds[5:-5]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=int, metavar="B", help="print where the time goes at B rows instead")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--overlap", action="store_true", help="the loop of a GPU, one step ahead")
    args = parser.parse_args()
    with prepared(overlap=args.overlap) as llm:
        if args.profile:
            decode(llm, args.profile, args.temperature)
            profile = cProfile.Profile()
            profile.runcall(decode, llm, args.profile, args.temperature)
            pstats.Stats(profile).sort_stats("tottime").print_stats(28)
            return
        for batch in BATCHES:
            found = [median(decode(llm, batch, args.temperature)) * 1e3 for _ in range(3)]
            sys.stdout.write(f"B={batch}: {min(found):.3f} ms per step ({min(found) / batch * 1e3:.1f} us per row)\n")


if __name__ == "__main__":
    main()
