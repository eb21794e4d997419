"""What decode steps and prompts of the whole engine cost on a GPU, and that every way to run them gives the same bits.

    python -m tools.device_engine --out FOLDER [--quick]

Writes engine.json: machine, versions, every comparison with its figure. More about bits: tools/device_equal.py; other
families and transformers: tools/device_families.py.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from teachkv import LLM, SamplingParams
from teachkv.fused import FusedModel, fused
from teachkv.graphs import CLASSES, GraphedModel
from teachkv.model import Model
from teachkv.observe import Observer
from tools.device.engines import machine, shaped
from tools.device.prefill import prefill_speeds

ROOF = 4400  # GB/s that one H200 reads, measured


# The ordinary loop: models are put in place of one another here, and their graphs have one turn.
ORDINARY = {"enable_prefix_caching": False, "overlap": False}


def alone_and_together(llm: LLM, found: list[dict[str, Any]], count: int) -> None:
    """Every request alone and in one ragged batch: log-probs of the drawn tokens compared bit for bit."""
    rng = np.random.default_rng(1)
    prompts = [rng.integers(300, 100_000, int(n)).tolist() for n in rng.integers(16, 534, count)]
    wanted = SamplingParams(max_tokens=16, temperature=0, ignore_eos=True, logprobs=3)

    def facts(output: Any) -> Any:
        first = output.outputs[0]
        return first.token_ids, [sorted((t, p.logprob) for t, p in step.items()) for step in first.logprobs]

    together = [facts(output) for output in llm.generate(prompts, wanted)]
    solo = [facts(llm.generate([prompt], wanted)[0]) for prompt in prompts]
    different = sum(a != b for a, b in zip(together, solo, strict=True))
    distinct = len({tuple(ids) for ids, _ in solo})
    found.append({"check": "alone = together", "requests": count, "different": different, "distinct": distinct})
    print(found[-1], flush=True)


def decoders(llm: LLM) -> dict[str, Model]:
    """The model of this engine in four ways to run a decode step."""
    given = llm._alive().engine.model
    plain = Model(given.config, given.weights, given.ops)
    joined = fused(plain)
    assert isinstance(joined, FusedModel), "this model has no fused decode steps"
    return {"fused": GraphedModel(joined), "plain": GraphedModel(plain), "fused eager": joined, "plain eager": plain}


def four_ways(found: list[dict[str, Any]]) -> None:
    """Fused or not, replayed or launched one by one: tokens and log-probs bit for bit, few rows and many."""
    rng = np.random.default_rng(4)
    wanted = SamplingParams(max_tokens=10, temperature=0, ignore_eos=True, logprobs=2)
    with shaped("qwen2.5-0.5b", layers=6, backend="raw", max_model_len=1024, **ORDINARY) as llm:
        ways = decoders(llm)
        for count in (1, 5, 12, 20, 40):
            lengths = [5, 70, 300, 33, 256, *rng.integers(2, 600, 40).tolist()][:count]
            prompts = [rng.integers(300, 100_000, n).tolist() for n in lengths]
            outs = {}
            for name, model in ways.items():
                llm._alive().engine.model = model
                outs[name] = [(o.outputs[0].token_ids, o.outputs[0].logprobs) for o in llm.generate(prompts, wanted)]
            different = sum(len({repr(out[i]) for out in outs.values()}) > 1 for i in range(count))
            replays = [model.replays for model in ways.values() if isinstance(model, GraphedModel)]
            assert all(replays), "no step was replayed"
            distinct = len({repr(facts) for facts in outs["fused"]})
            row = {"check": "fused = plain = graph = eager", "requests": count, "different": different}
            found.append(row | {"distinct": distinct})
            print(found[-1], flush=True)


def replay_ms(model: Model, batch: int) -> float:
    """Milliseconds of the GPU for one replay of the graph that this batch takes: the best of 20."""
    import cupy

    assert isinstance(model, GraphedModel)
    graph = next(r.graph for key, r in model.recorded.items() if key[0] == min(c for c in CLASSES if c >= batch))
    stream, found = cupy.cuda.Stream(non_blocking=True), []
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(20):
        begin.record(stream)
        graph.launch(stream)
        end.record(stream)
        end.synchronize()
        found.append(float(cupy.cuda.get_elapsed_time(begin, end)))
    return min(found)


def bytes_read(model: Model, lengths: Any) -> int:
    """Of a decode step: every weight once (of an untied embedding nothing), K and V of every live position."""
    config, weights = model.config, model.weights
    read = weights.nbytes - (0 if weights.tied else int(weights.embed.nbytes))
    position = 2 * config.num_layers * config.num_kv_heads * config.head_dim * weights.embed.dtype.itemsize
    return int(read + position * sum(lengths))


def speed(llm: LLM, found: list[dict[str, Any]], name: str, batch: int, spread: bool) -> None:
    """64 tokens out, prompts of 275 or 16..534: the median pure decode step, and the replay of its graph at the end."""
    lengths = np.linspace(16, 534, batch).astype(int) if spread else np.full(batch, 275)
    rng = np.random.default_rng(2)
    prompts = [rng.integers(300, 100_000, int(n)).tolist() for n in lengths]
    wanted = SamplingParams(max_tokens=64, temperature=0, ignore_eos=True)
    serving = llm._alive()
    for _ in range(2):
        serving.engine.observer = Observer(None, keep=True)
        began = time.perf_counter()
        outputs = llm.generate(prompts, wanted)
        seconds = time.perf_counter() - began
    records = [r for r in llm.trace.records if r.prefill_tokens == 0 and r.running == batch]
    assert records
    assert all(len(o.outputs[0].token_ids) == 64 for o in outputs)
    step = 1e3 * float(np.median([r.seconds for r in records]))
    replay = replay_ms(serving.engine.model, batch)
    rate = bytes_read(serving.engine.model, lengths + 64) / replay / 1e6
    row = {"check": "speed", "decode": name, "batch": batch, "prompts": "16..534" if spread else "275"}
    row |= {"tok_per_s": round(batch * 64 / seconds), "decode_step_ms": round(step, 3), "replay_ms": round(replay, 3)}
    found.append(row | {"replay_GB_per_s": round(rate), "of_4.4_TB_per_s": round(rate / ROOF, 3)})
    print(found[-1], flush=True)


def speeds(found: list[dict[str, Any]], quick: bool) -> None:
    """Every cell with fused and with plain decode steps, on one engine."""
    with shaped("qwen2.5-0.5b", backend="raw", max_model_len=2048, **ORDINARY) as llm:
        alone_and_together(llm, found, 4 if quick else 24)
        for row in prefill_speeds(decoders(llm)["fused eager"]):
            found.append(row)
            print(row, flush=True)
        for name, model in list(decoders(llm).items())[:2]:
            llm._alive().engine.model = model
            for batch in (1, 8) if quick else (1, 8, 32, 128):
                for spread in (False, True) if batch > 1 else (False,):
                    speed(llm, found, name, batch, spread)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="one batch size, few requests")
    args = parser.parse_args()
    found: list[dict[str, Any]] = []
    record = machine() | {"checks": found}

    def save() -> None:
        (args.out / "engine.json").write_text(json.dumps(record, indent=1) + "\n")

    four_ways(found)
    save()
    speeds(found, args.quick)
    save()
    bad = [row for row in found if row.get("different", 0)]
    print(json.dumps({"bad": bad}))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
