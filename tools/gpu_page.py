"""Writes docs/measure/gpu.md from the records gpu-engine and gpu-overlap; every figure on the page comes from them.

python -m tools.gpu_page
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE, PAGE = ROOT / "docs" / "evidence", ROOT / "docs" / "measure" / "gpu.md"
Run = dict[str, Any]

HEAD = """# A decode step on a GPU

Written by `python -m tools.gpu_page` from the record `docs/evidence/gpu-engine.json` ({date};
{machine}; CuPy {cupy}). Qwen2.5-0.5B shape with random weights, bfloat16, 64
tokens out, one engine for all cells. The record has {runs} runs, all of the ordinary loop; this page
shows the last one ({what}),
and the first one's replay beside it.

*plain* runs each operation as a kernel of its own, eleven per layer. *fused* runs five (`teachkv/fused.py`):
norms, biases, rope, append and residual adds live in the kernels of the products, and each kernel begins while
the one before it still runs and asks for its weights meanwhile (`cuda_kernels/common/chain.cuh`). Both are
replayed as one CUDA graph.

*replay* is the time of that graph on the GPU, measured with events: the best of 20. *step* is the median of the
engine's whole step, with planning, sampling and text on the host. GB/s is the bytes of all weights and of K and
V of the live positions over the replay; the roof is {roof} GB/s. Milliseconds:
"""

BITS = """
## Same bits

Fused and plain, replayed and launched one by one: tokens and log-probs of {requests} requests in batches of
{batches}, six layers; {different} differ. Alone and in one ragged batch, all layers, fused: {alone} requests,
{apart} differ. Logits against `transformers` {version}, four layers: relative error {errors}.
"""

OVERLAP = """
## One step ahead

A decode step of the ordinary loop waits for the host between two replays. In the overlapped loop (`teachkv/engine.py`)
the next step is launched before anybody has looked at the tokens of this one: they go from the kernel that draws into
the next step without leaving the device, and the host plans, appends and writes text meanwhile. It learns of an end
token one step late; what was computed for that row in between is dropped and counts nowhere.

Both loops in one process, by turns, prompts of 16..534 tokens, 64 tokens out, medians of {turns} with the lowest and
highest sample (`python -m tools.device_overlap`; record `docs/evidence/gpu-overlap.json`, {date}). Answers and
log-probs of {requests} requests, greedy, sampled with stop strings and sampled with end tokens: {different} differ.

{table}

Before graphs were recorded at load, launches remembered and rows of an unchanged cohort left alone, on a day when the
host of that machine was at its faster speed (`docs/evidence/gpu-overlap-faster-host.json`):

{faster}
"""

STEPS = """| rows | step, ms: ordinary | overlapped | tokens per second, prompts and all: ordinary | overlapped |
|---|---:|---:|---:|---:|
"""

PREFILL = """
## Prompts

One packed step, the head on each row's last token (record `docs/evidence/gpu-prefill.json`, {date}; copied from what
one run printed). Operations are 2 x non-embedding parameters x tokens, and attention. *fused*: rows lie in panels
between the kernels, which only the longest of these does now. *host*: until every kernel had been asked for; *whole*:
until the last one had ended; *kernels*: the same as one graph, where the device waits for nobody. Milliseconds:

| prompts | | host | whole | TFLOP/s | kernels | TFLOP/s |
|---|---|---:|---:|---:|---:|---:|
"""

PREFILL_NOTES = """
Before launches were remembered the host took 15 ms for each of them, so one prompt of 275 took {before} ms. At equal
tokens, prompts of 16..534 take {spread} ms where prompts of 275 take {even}.
"""

WEAK = """
## What did not pay, and what is left

- Many tokens: every block of the fused gate_up norms them anew, and weights are read once for each 32 tokens.
  Above 16 rows the MLP runs as norm, one kernel for gate and up, and down, all in tiles; only qkv and o stay fused.
- Weights asked for into registers: the compiler moved the loads behind the wait for the last kernel. Now they
  go to shared memory, each lane's to places that only it reads.
- Weights of the MLP brought into L2 by the kernels before it (`cp.async.bulk.prefetch.L2`, while attention leaves
  the bus idle): a step at 1, 8, 16, 32 rows took 7, 3, 3, 4 % longer for gate and up, 5, 2, 2, 2 % for down. What is
  asked for early stands in line before what is needed now.
- `x * c - y * s` as one writes it: the compiler may fuse either product into the sum, one in this kernel and
  the other in that one, and the bits part. Its rounding is written out now (`cuda_kernels/common/rope.cuh`).
- The host takes a large part of a step, and more in one run than in the other: at 128 rows it is not done when the
  device is, and overlap hides only the device.
- Attention of a short row takes as long as the products around it: one block per KV head walks a chain of
  latencies.
- Prompts: large products run at 350 to 440 TFLOP/s with the panels made for them
  (`docs/evidence/raw-kernels-h200.md`), half as fast as cuBLAS. Of the kernels of a step of 32 x 275 they take 16 ms;
  attention takes 2.5, norms 1.0, k and v 0.8, rope 0.6, and laying weights out in panels 0.8: the same weights at
  every step, which could be kept. Short prompts wait for the host: a launch costs it 40 us on that machine.
- Shapes whose chunks do not fit into shared memory (Qwen2.5-7B) stay plain.
"""


def cells(run: Run, decode: str) -> dict[tuple[int, str], Run]:
    speeds = (c for c in run["checks"] if c["check"] == "speed" and c["decode"] == decode)
    return {(c["batch"], c["prompts"]): c for c in speeds}


def steps(first: Run, last: Run) -> list[str]:
    fused, plain, before = cells(last, "fused"), cells(last, "plain"), cells(first, "fused")
    lines = ["| rows, prompts | replay, fused | first run | plain | GB/s | of the roof | step, fused | plain |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for key, cell in fused.items():
        figures = cell["replay_ms"], before[key]["replay_ms"], plain[key]["replay_ms"], cell["replay_GB_per_s"]
        share, ends = f"{100 * cell['of_4.4_TB_per_s']:.1f} %", (cell["decode_step_ms"], plain[key]["decode_step_ms"])
        lines.append(f"| {key[0]}, {key[1]} | {' | '.join(map(str, (*figures, share, *ends)))} |")
    return lines


def kernels(run: Run) -> list[str]:
    lines = ["\n## Kernel by kernel\n", "Microseconds per call in a graph over 24 layers' weights; all bits equal: "]
    lines[-1] += f"{'yes' if all(k.get('same bits', True) for k in run['kernels']) else 'NO'}.\n"
    lines += ["| kernel | rows | fused | plain | GB/s, fused |", "|---|---:|---:|---:|---:|"]
    for k in run["kernels"]:
        lines.append(f"| {k['kernel']} | {k['rows']} | {k['us']} | {k.get('plain us', '')} | {k['GB/s']} |")
    return lines


def prompts(record: Run) -> str:
    lines = [PREFILL.format(date=record["date"])]
    for cell in record["cells"]:
        work = operations(*map(int, cell["prompts"].split(" of "))) / 1e9
        whole, kernels = (f"{cell[key]} | {work / cell[key]:.0f}" for key in ("whole_ms", "kernels_ms"))
        lines.append(f"| {cell['prompts']} | {cell['model']} | {cell['host_ms']} | {whole} | {kernels} |\n")
    spread, before = record["spread"], record["before"][-1]["whole_ms"]
    return "".join(lines) + PREFILL_NOTES.format(before=before, spread=spread["16..534"], even=spread["275"])


def operations(rows: int, length: int) -> float:
    """Of `rows` prompts of Qwen2.5-0.5B's shape: 2 x non-embedding parameters x tokens, and attention."""
    hidden, width, layers, heads, groups, dim = 896, 4864, 24, 14, 2, 64
    parameters = layers * hidden * (2 * heads * dim + 2 * groups * dim + 3 * width)
    return rows * (2.0 * parameters * length + 4.0 * layers * heads * dim * length * (length + 1) / 2)


def bits(run: Run, runs: list[Run]) -> str:
    ways = [c for c in run["checks"] if c["check"].startswith("fused = plain")]
    alone = next(c for c in run["checks"] if c["check"] == "alone = together")
    compared = (one for one in reversed(runs) if any(c["check"] == "transformers" for c in one["checks"]))
    peers = [c for c in next(compared)["checks"] if c["check"] == "transformers"]
    return BITS.format(
        requests=sum(c["requests"] for c in ways),
        batches=", ".join(str(c["requests"]) for c in ways),
        different=sum(c["different"] for c in ways),
        alone=alone["requests"],
        apart=alone["different"],
        version=peers[0]["transformers"],
        errors=", ".join(f"{c['error']:.1e} ({c['dtype']})" for c in peers),
    )


def overlap(record: Run, faster: Run) -> str:
    found = record["cells"]
    about = {
        "turns": len(found[0]["step_ms, on"]["samples"]),
        "date": record["date"],
        "requests": sum(cell["batch"] * len(cell["different"]) for cell in found),
        "different": sum(sum(cell["different"].values()) for cell in found),
    }
    return OVERLAP.format(**about, table=both_loops(found), faster=both_loops(faster["cells"]))


def both_loops(found: list[Run]) -> str:
    lines = []
    for cell in found:
        shown = [ranged(cell[f"{what}, {how}"], digits) for what, digits in (("step_ms", 2), ("tok_per_s", 0))
                 for how in ("off", "on")]  # fmt: skip
        lines.append(f"| {cell['batch']} | {' | '.join(shown)} |")
    return STEPS + "\n".join(lines)


def ranged(figure: Run, digits: int) -> str:
    """The median with its range."""
    low, high = min(figure["samples"]), max(figure["samples"])
    return f"{figure['median']:,.{digits}f} [{low:,.{digits}f} .. {high:,.{digits}f}]"


def main() -> None:
    record = json.loads((EVIDENCE / "gpu-engine.json").read_text())
    first, *_, last = record["runs"]
    about = {"runs": len(record["runs"]), "date": record["date"], "machine": last["machine"], "roof": "4,400"}
    about |= {"cupy": last["versions"]["cupy"], "what": last["what"].partition(": ")[2]}
    ahead = overlap(*(json.loads((EVIDENCE / f"gpu-overlap{kind}.json").read_text()) for kind in ("", "-faster-host")))
    text = [
        HEAD.format(**about),
        *steps(first, last),
        ahead,
        *kernels(last),
        prompts(json.loads((EVIDENCE / "gpu-prefill.json").read_text())),
    ]
    PAGE.write_text("\n".join([*text, bits(last, record["runs"]), WEAK.strip("\n")]) + "\n")


if __name__ == "__main__":
    main()
