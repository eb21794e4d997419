"""Overlap on against overlap off on a GPU: tokens and log-probs bit for bit, speeds, and the host's own time per step.

python -m tools.device_overlap
"""

import json
import sys
import time
from typing import Any

import numpy as np

from teachkv import SamplingParams
from teachkv.observe import Observer
from tools.device.engines import shaped

WAYS = {
    "greedy": SamplingParams(max_tokens=64, temperature=0, ignore_eos=True),
    "sampled, stops": SamplingParams(max_tokens=64, temperature=0.8, seed=1, logprobs=2, stop=["e", "a"]),
    "sampled, eos": SamplingParams(
        max_tokens=64, temperature=1.5, seed=2, logprobs=2, stop_token_ids=list(range(20_000))
    ),
}


def run(overlap: str, batch: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Facts of every answer by way, and milliseconds per pure decode step of the greedy one (second run)."""
    rng, facts = np.random.default_rng(7), {}
    prompts = [rng.integers(300, 100_000, int(n)).tolist() for n in np.linspace(16, 534, batch)]
    options: dict[str, Any] = {"backend": "raw", "max_model_len": 2048, "seed": 3, "overlap": overlap}
    with shaped("qwen2.5-0.5b", **options) as llm:
        for name, wanted in WAYS.items():
            outs = [o.outputs[0] for o in llm.generate(prompts, wanted)]
            facts[name] = [(o.token_ids, o.text, o.finish_reason, repr(o.logprobs)) for o in outs]
        llm._alive().engine.observer = Observer(None, keep=True)
        began = time.perf_counter()
        llm.generate(prompts, WAYS["greedy"])
        seconds = time.perf_counter() - began
        steps = [r for r in llm.trace.records if not r.prefill_tokens and r.running == batch]
        whole = float(np.median([r.seconds for r in steps])) * 1e3
        host = float(np.median([r.seconds - r.waited_seconds for r in steps])) * 1e3
        return facts, {"tok_per_s": batch * 64 / seconds, "step_ms": whole, "host_ms": host}


def main() -> int:
    bad = 0
    for batch in (1, 8, 32, 128):
        (off, slow), (on, fast) = run("off", batch), run("on", batch)
        different = {name: sum(a != b for a, b in zip(off[name], on[name], strict=True)) for name in WAYS}
        bad += sum(different.values())
        sys.stdout.write(json.dumps({"batch": batch, "different": different, "off": slow, "on": fast}) + "\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
