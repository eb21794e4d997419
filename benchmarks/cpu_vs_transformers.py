"""teachkv and transformers on this machine's CPU, same weights, float32, greedy: one process, interleaved, medians.

    python benchmarks/cpu_vs_transformers.py [--samples 5] [--prompt 64] [--new 64]

Needs the extra 'peers' and `teachkv pull smollm2`. Run it on an idle machine: both sides want every core. Each sample
runs all arms once, in an order that turns by one, so that no arm always comes first. Two figures:

    decode B=1       (new - 1) / (time of `new` tokens - time of 1 token): prefill is taken out
    total B=8        8 * new / time, prompts of equal length, prefill included
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers

from teachkv import LLM, SamplingParams
from teachkv.checkpoint.pull import cached_dir

Generate = Callable[[list[list[int]], int], None]
TARGETS = {  # (figure, arm): least ratio to transformers
    ("decode B=1", "teachkv"): 0.45,
    ("decode B=1", "teachkv, invariance off"): 0.9,
    ("total B=8", "teachkv"): 1.3,
    ("total B=8", "teachkv, invariance off"): 1.3,
}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def ours(invariance: bool) -> Generate:
    llm = LLM("smollm2", invariance=invariance, enable_prefix_caching=False, backend="reference")

    def generate(prompts: list[list[int]], new: int) -> None:
        params = SamplingParams(temperature=0.0, max_tokens=new, ignore_eos=True)
        outputs = llm.generate(prompts, params)
        assert all(len(output.outputs[0].token_ids) == new for output in outputs)

    return generate


def theirs() -> Generate:
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        cached_dir("smollm2"), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()

    @torch.no_grad()
    def generate(prompts: list[list[int]], new: int) -> None:
        # Unequal prompts are padded on the left, behind a mask: its own way.
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        settings = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "pad_token_id": 0}
        out = model.generate(ids, attention_mask=mask, **settings)
        assert out.shape[1] == ids.shape[1] + new

    return generate


def seconds(generate: Generate, prompts: list[list[int]], new: int) -> float:
    start = time.perf_counter()
    generate(prompts, new)
    return time.perf_counter() - start


def measure(arms: dict[str, Generate], samples: int, length: int, new: int) -> dict[str, dict[str, list[float]]]:
    """figure -> arm -> tokens per second of each sample."""
    random = np.random.default_rng(0)
    found: dict[str, dict[str, list[float]]] = {f: {arm: [] for arm in arms} for f in ("decode B=1", "total B=8")}
    names = list(arms)
    for sample in range(-1, samples):  # the first round warms up and is not counted
        prompts = random.integers(100, 40000, (8, length)).tolist()
        for name in names[sample % len(names) :] + names[: sample % len(names)]:
            one = seconds(arms[name], prompts[:1], 1)
            many = seconds(arms[name], prompts[:1], new)
            total = seconds(arms[name], prompts, new)
            if sample >= 0:
                found["decode B=1"][name].append((new - 1) / (many - one))
                found["total B=8"][name].append(8 * new / total)
    return found


def report(found: dict[str, dict[str, list[float]]]) -> bool:
    """Print medians and ratios; True if every target is met."""
    met = True
    for figure, arms in found.items():
        base = statistics.median(arms["transformers"])
        for arm, rates in arms.items():
            ratio, target = statistics.median(rates) / base, TARGETS.get((figure, arm))
            met &= target is None or ratio >= target
            wanted = "" if target is None else f"  (wanted {target:.2f}{'' if ratio >= target else ', MISSED'})"
            spread = f"{min(rates):.1f} .. {max(rates):.1f}"
            say(f"{figure:12s} {arm:25s} {statistics.median(rates):7.1f} tok/s  [{spread}]  x {ratio:.2f}{wanted}")
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=64, help="tokens of each prompt")
    parser.add_argument("--new", type=int, default=64, help="new tokens of each request")
    options = parser.parse_args()
    say(f"{platform.machine()}, {torch.get_num_threads()} threads; NumPy {np.__version__}, torch {torch.__version__}")
    say(f"transformers {transformers.__version__}; prompts of {options.prompt}, {options.new} new tokens, greedy")
    arms = {"transformers": theirs(), "teachkv": ours(True), "teachkv, invariance off": ours(False)}
    met = report(measure(arms, options.samples, options.prompt, options.new))
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
