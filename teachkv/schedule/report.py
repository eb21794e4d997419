"""`python -m teachkv.schedule.report [FOLDER]`: the policies side by side, as a page and two pictures.

No model runs: steps are counted, not seconds. What a step costs depends on its tokens, so the page shows those too.
"""

import sys
from pathlib import Path
from typing import Any

from teachkv.schedule.scheduler import Scheduler
from teachkv.schedule.simulate import Job, Run, simulate
from teachkv.schedule.timeline import timeline

SEATS = 128
ARMS: list[tuple[str, str, dict[str, Any]]] = [
    ("bucketed", "bucketed", {}),
    ("ragged, floor 0", "ragged", {}),
    ("ragged, floor 0, no patience", "ragged", {"patience_steps": 1_000_000}),
    ("ragged, floor 0, no coalescing", "ragged", {"coalesce": False}),
    ("ragged, floor 4", "ragged", {"prefill_floor_steps": 4}),
    ("ragged, floor 16", "ragged", {"prefill_floor_steps": 16}),
    ("ragged, floor 4, cap 8", "ragged", {"prefill_floor_steps": 4, "prefill_max_seqs": 8}),
    ("packed, budget 512", "packed", {"max_num_batched_tokens": 512}),
    ("packed, budget 2,048", "packed", {"max_num_batched_tokens": 2048}),
]
HEAD = (
    "| policy | steps | with prompts | run_mean | run_max | resident | first token, median | first token, worst "
    "| largest step, tokens |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
)


def spread() -> list[Job]:
    """128 prompts: 16 of each length 64, 128 .. 512; 64 tokens out."""
    return [Job(i, 64 * (1 + i // 16), 64) for i in range(128)]


def all_different() -> list[Job]:
    """128 prompts of 128 different lengths from 16 to 534; 64 tokens out."""
    return [Job(i, 16 + i * 518 // 127, 64) for i in range(128)]


def run_arms(jobs: list[Job]) -> list[tuple[str, Run]]:
    return [(label, simulate(Scheduler(policy, max_num_seqs=SEATS, **more), jobs)) for label, policy, more in ARMS]


def table(runs: list[tuple[str, Run]]) -> str:
    """One line per arm; waits are in steps, from arrival to the step that drew the first token."""
    lines = []
    for label, run in runs:
        waits = run.waits
        cells: list[int | str] = [
            len(run.steps),
            run.count(prefill=True),
            f"{run.run_mean:.1f}",
            run.run_max,
            run.resident_max,
        ]
        cells += [waits[len(waits) // 2], waits[-1], max(step.plan.tokens for step in run.steps)]
        lines.append(f"| {label} | " + " | ".join(f"{c:,}" if isinstance(c, int) else c for c in cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


PAGE = """# Schedulers side by side

Written by `python -m teachkv.schedule.report`. A scheduler alone, with a fake model and a fake clock: 128 requests
arrive at once, 128 seats, 64 tokens out. *running* = in this step's plan; *waiting* = all other live requests, decoders
among them; *resident* = holding KV. Steps are not seconds: a step costs what its tokens cost, so look at the last
column as well.

## 16 prompts of each length 64, 128 .. 512

{spread_table}
![Running and waiting over the steps, eight lengths](schedulers-spread.svg)

- `bucketed` runs 16 and leaves 112 waiting: only equal lengths share a step, and lengths 64 apart never meet within 64
  tokens. 8 prompt steps and 504 decode steps, where 8 + 64 would do.
- `ragged` decodes everyone at once, but with coalescing and no floor the decoders, whose length counts as 0, hold the
  prompts back once 48 of them run. A floor lets prompts in: 4 admits all 128, 16 only 96.
- A cap keeps a step of prompts short and admission slow: both ends of the same rope.
- `packed` has no second limiter. At 2,048 prompt tokens a step all 128 run after 18 steps; at 512 all prompts are
  computed within 72 steps, but the first requests have left by then.

## 128 prompts of 128 different lengths

{different_table}
![Running and waiting over the steps, all lengths different](schedulers-different.svg)

- `bucketed` is a queue of one: 8,192 steps.
- No floor reaches 128: a prompt step admits one prompt, and 64 tokens later it has left again. The floor and the cap
  tune the admission of equal prompts; unequal prompts need to be packed into one step.
- With coalescing one prompt outweighs the decoders only when few of them are left. What saves these runs is
  `patience_steps` (512 steps in a seat without running, then a request goes first), which the parent does not have:
  the line "no patience" shows its queue, and the peak of "floor 0" is the burst when patience ends.
"""


def write(folder: Path) -> list[Path]:
    """Write the page and its pictures into `folder`; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    eight, different = run_arms(spread()), run_arms(all_different())
    texts = {
        "schedulers.md": PAGE.format(spread_table=table(eight), different_table=table(different)),
        "schedulers-spread.svg": timeline("16 prompts of each of 8 lengths", eight, 520),
        "schedulers-different.svg": timeline("128 prompts of 128 lengths", different, 720),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


if __name__ == "__main__":
    for path in write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/measure")):
        sys.stdout.write(f"{path}\n")
