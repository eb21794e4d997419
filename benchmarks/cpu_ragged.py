"""Prompts of unequal lengths on this machine's CPU, SmolLM2, float32, greedy: teachkv and transformers, interleaved.

    python benchmarks/cpu_ragged.py [--samples 5] [--batches 8 32] [--new 32]

Needs the extra 'peers' and `teachkv pull smollm2`; run it on an idle machine. Prompts of 16 .. 534 tokens, evenly
spread, as the ragged decode was measured on where it comes from; transformers gets them left-padded with a mask, its
own way. Every sample runs all arms once, in an order that turns by one. Three figures:

    total          B * new / time, prefill included, teachkv over transformers
    ragged tax     decode time per step of spread prompts over that of uniform ones (275 tokens each: equal live rows)
    first token    time to the first token of a prompt with 500 tokens seen before, over the same prompt unseen
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from cpu_vs_transformers import ours, say, theirs

from teachkv import LLM, SamplingParams

Prompts = list[list[int]]
LONGEST, SHORTEST, MIDDLE = 534, 16, 275
TOTAL_TARGETS, TAX_TARGET, FIRST_TARGET = {8: 1.8, 32: 2.0}, 1.05, 8.0


def spread(batch: int, random: np.random.Generator) -> Prompts:
    return [random.integers(100, 40000, round(n)).tolist() for n in np.linspace(SHORTEST, LONGEST, batch)]


def uniform(batch: int, random: np.random.Generator) -> Prompts:
    return random.integers(100, 40000, (batch, MIDDLE)).tolist()


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def verdict(held: bool, wanted: str) -> str:
    return f"(wanted {wanted}{'' if held else ', MISSED'})"


def total(batch: int, samples: int, new: int) -> bool:
    """Generated tokens per second of the whole call, both engines."""
    arms = {"transformers": theirs(), "teachkv": ours(True)}
    random, found = np.random.default_rng(batch), {name: [] for name in arms}
    for sample in range(samples):
        prompts = spread(batch, random)
        for name in list(arms)[:: 1 if sample % 2 else -1]:
            found[name].append(batch * new / timed(lambda name=name, prompts=prompts: arms[name](prompts, new)))
    base, mine = (statistics.median(found[name]) for name in arms)
    for name, rates in found.items():
        low, middle, high = (f(rates) for f in (min, statistics.median, max))
        say(f"total B={batch:<3} {name:13} {middle:7.1f} tok/s  [{low:.1f} .. {high:.1f}]")
    held = mine / base >= TOTAL_TARGETS.get(batch, 0)
    say(f"total B={batch:<3} ratio {mine / base:.2f} {verdict(held, f'{TOTAL_TARGETS.get(batch, 0):.1f}')}")
    return held


def step_seconds(llm: LLM, prompts: Prompts, new: int) -> float:
    """Median time of the steps in which every row decoded and nothing else ran."""
    before = len(llm.trace.records)
    llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=new, ignore_eos=True))
    steps = [r for r in llm.trace.records[before:] if r.decode_tokens == len(prompts) and not r.prefill_tokens]
    return statistics.median(r.seconds for r in steps)


def ragged_tax(batch: int, samples: int, new: int) -> bool:
    """The same number of live rows, their lengths spread or equal."""
    llm = LLM("smollm2", enable_prefix_caching=False, backend="reference", trace=True)
    random, makers = np.random.default_rng(batch), {"uniform": uniform, "spread": spread}
    found: dict[str, list[float]] = {name: [] for name in makers}
    for sample in range(samples):
        for name in list(makers)[:: 1 if sample % 2 else -1]:
            found[name].append(step_seconds(llm, makers[name](batch, random), new))
    llm.close()
    ratio = statistics.median(found["spread"]) / statistics.median(found["uniform"])
    for name, seconds in found.items():
        low, middle, high = (1000 * f(seconds) for f in (min, statistics.median, max))
        say(f"step  B={batch:<3} {name:13} {middle:7.1f} ms  [{low:.1f} .. {high:.1f}]")
    say(f"step  B={batch:<3} ragged tax {100 * (ratio - 1):+.1f} % {verdict(ratio <= TAX_TARGET, 'at most +5 %')}")
    return ratio <= TAX_TARGET


def first_token(samples: int) -> bool:
    """A prompt of 512 tokens of which the engine has computed the first 500 before, over one that it has not."""
    llm = LLM("smollm2", backend="reference")
    random, params = np.random.default_rng(0), SamplingParams(temperature=0.0, max_tokens=1)
    cold, warm = [], []
    for _ in range(samples):
        shared, *tails = (random.integers(100, 40000, n).tolist() for n in (500, 12, 12))
        cold.append(timed(lambda p=shared + tails[0]: llm.generate([p], params)))
        warm.append(timed(lambda p=shared + tails[1]: llm.generate([p], params)))
    llm.close()
    ratio = statistics.median(cold) / statistics.median(warm)
    for name, seconds in {"unseen": cold, "seen before": warm}.items():
        say(f"first token, {name:12} {1000 * statistics.median(seconds):7.1f} ms")
    say(f"first token ratio {ratio:.1f} {verdict(ratio >= FIRST_TARGET, f'{FIRST_TARGET:.0f}')}")
    return ratio >= FIRST_TARGET


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--new", type=int, default=32, help="new tokens of each request")
    options = parser.parse_args()
    say(f"{platform.machine()}, {torch.get_num_threads()} threads; NumPy {np.__version__}, torch {torch.__version__}")
    held = [first_token(options.samples)]
    held += [ragged_tax(batch, options.samples, options.new) for batch in options.batches]
    held += [total(batch, options.samples, options.new) for batch in options.batches]
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
