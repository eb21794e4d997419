"""Writes docs/measure/seed-tables.md from the records of the long tables; every figure on the page comes from them.

python -m tools.seed_page
"""

from pathlib import Path

from teachkv.bench.judge import judge, refusals
from teachkv.bench.metrics import Figures
from teachkv.bench.quotes import naming
from teachkv.bench.record import Record
from teachkv.bench.tables import CLAIMS, claims, groups, heading, median, table

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE, PAGE = ROOT / "docs" / "evidence", ROOT / "docs" / "measure" / "seed-tables.md"
COMMITS = {  # whose sources have the hash that the record names
    "seed-uniform.json": "cde0268ced993867d6b4ab5307ff1d92db2fbf94",
    "seed-inverted.json": "cde0268ced993867d6b4ab5307ff1d92db2fbf94",
    "seed-spread.json": "2672969114291cea05ab9c6c0fee12317e4e59ec",
    "seed-inverted-probed.json": "2672969114291cea05ab9c6c0fee12317e4e59ec",
    "arrivals.json": "2672969114291cea05ab9c6c0fee12317e4e59ec",
    "yardstick.json": "5b216467acd1b532d936f680d655148edec0c931",
}
COLUMNS = ("cell", "arm", "tok/s", "every sample", "run_mean", "run_max", "TTFT p50, ms")
WAITS = ("cell", "arm", "tok/s", "run_mean", "TTFT p50, ms", "p90", "p99", "ITL p50, ms", "p90", "p99")

HEAD = """# The seed's table, on an H200 and on two cores

Written by `python -m tools.seed_page`. Each table is one command of
[the long tables](bench.md#the-long-tables), a fresh process per sample: the shape of Qwen2.5-0.5B with random
weights, bfloat16, 64 tokens out, prefix cache off, overlap on.

{machine}

All policies keep their batch in the same way, so that they alone differ; the two arms with *rebuild* show what
`strip=deferred` gains over `eager`, without CUDA graphs. *run_mean* and *run_max* count the sequences of a step.

!!! warning "The host of this machine ran at two speeds"
    The same loop took 15 ms on most of its 16 cores and 28 ms on a few, and a minute later it was others. Much of a
    decode step is the host's, so samples of one arm differ by up to 2. The harness notes the host's pulse around each
    sample and calls a difference inside of what the machine strayed unresolved
    ([guard](../guards/steady-machine.md)). The records of equal prompts are from before it did: no claim is printed
    there.
"""

UNIFORM = """
## Prompts of one length

All policies can run everything at once, so they should be alike, and what differs is the machine. The cap holds
prompts back that nothing else waits for: at 128 rows it costs two thirds, and at 32 and 128 the first token comes
later, not sooner.
"""

SPREAD = """
## Prompts of all lengths

*bucketed* runs rows of one length together, and here no two have the same: it runs one. *ragged* decodes unequal rows
in one batch but takes prompts in one length at a time, behind a pin that lets a running cohort go first; a floor
forces a prompt in after so many steps. At 8 and 32 rows a floor of 4 runs two to three times as many; at 128 it runs
fewer at most, since each prompt that is forced in is a step alone. *packed* takes prompts of all lengths in one step,
and all run after a few.

Two samples per arm at 8 rows, one at 32 and at 128. One warm-up did not come to its end, and what follows it is
refused.
"""

INVERTED = """
## The cell that inverted, alone

32 prompts of one length, isolated, five samples. The baseline against itself strays by as much as any arm does from
it: nothing may be read off this cell on this machine.
"""

PROBED = """
## The same cell in a ladder, behind a probe

How the seed document measured first: all cells in one process, and a request of 40 tokens sent ahead to see whether
the engine drains, not waited for. Where rows of all lengths decode together, the probe joins the cohort: 33 rows where
32 were meant, ragged where all are of one length, and a class of batch sizes whose graph is recorded inside of the
measured time. *bucketed* keeps the probe apart. So the table inverts, by a factor that five samples repeat well: the
baseline's own samples lie further apart than *ragged*'s. Every run of it is refused.
"""

ARRIVALS = """
## Requests that arrive by themselves

128 prompts of 16 to 534 tokens arrive at random at 50, 80 and 95 % of the capacity that *packed* was measured to have;
64 tokens out. Times count from the intended arrival. *packed* stays near its own pace up to the end. The others fall
behind at half the load already: they would need another capacity, and their waits grow with the length of the test.
One sample per arm.
"""

YARDSTICK = """
## 256 requests at once

100 to 1,024 tokens in and out, 133,966 tokens out, the workload that nano-vllm publishes; a seat for each request.
"""


SMOLLM = """
## SmolLM2-135M on two cores of a CPU

`teachkv bench run --preset smollm2-small --rounds {rounds}`: real weights in float32, 16 tokens out at 8 rows, 8 at 128
rows, whose prompts are short (32 tokens, or 16 to 48). A CPU spends most of the time on prompts, so what a policy
gains in decoding is a small part of the whole. One sample per arm.

- {machine}
- {code}
"""


def ms(found: list[Figures], what: str, *percents: int) -> list[str]:
    return [f"{median([getattr(f, what).get(p, 0.0) for f in found]) * 1e3:.1f}" for p in percents]


def waits(record: Record) -> list[list[str]]:
    return [
        [
            cell,
            label,
            told(median([f.tok_s for f in found])),
            f"{median([f.run_mean for f in found]):.1f}",
            *ms(found, "ttft", 50, 90, 99),
            *ms(found, "itl", 50, 90, 99),
        ]
        for cell, label, _, found in groups(record)
    ]


def rows(record: Record) -> list[list[str]]:
    made = []
    for cell, label, _, found in groups(record):
        speeds = (told(median([f.tok_s for f in found])), " ".join(told(f.tok_s) for f in found))
        runs = (f"{median([f.run_mean for f in found]):.1f}", str(max(f.run_max for f in found)))
        made.append([cell, label, *speeds, *runs, *ms(found, "ttft", 50)])
    return made


def told(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"


def section(text: str, name: str, *, latency: bool = False, decided: bool = False) -> str:
    """A record's table; with `decided`, what the harness makes of it."""
    path = EVIDENCE / name
    record = Record.load(path)
    shown = table(WAITS, waits(record), markdown=True) if latency else table(COLUMNS, rows(record), markdown=True)
    parts = [text, naming(path), "", shown]
    if decided:
        findings = judge(record)
        parts += ["", table(CLAIMS, claims(record, findings), markdown=True)]
        parts += ["", f"Runs that a guard refused: {len({(f.cell, f.arm, f.round) for f in refusals(findings)})}."]
    return "\n".join(parts) + "\n"


def machines() -> str:
    """Every machine that a record names, and the commit of its sources."""
    lines = []
    for name, commit in COMMITS.items():
        record = Record.load(EVIDENCE / name)
        where = heading(record)[2].replace(", load", "; load at the start")
        pulse = next((line for line in heading(record) if line.startswith("the host's own loop")), "no pulse noted")
        lines.append(f"- {name.removesuffix('.json')}: {where}; {pulse}; sources of commit `{commit[:7]}`")
    return "\n".join(lines)


def main() -> None:
    parts = [HEAD.format(machine=machines())]
    parts += [section(UNIFORM, "seed-uniform.json"), section(SPREAD, "seed-spread.json", decided=True)]
    parts += [section(INVERTED, "seed-inverted.json"), section(PROBED, "seed-inverted-probed.json", decided=True)]
    parts += [section(ARRIVALS, "arrivals.json", latency=True, decided=True)]
    parts += [section(YARDSTICK, "yardstick.json", decided=True)]
    small = Record.load(EVIDENCE / "smollm2-small.json")
    _, code, machine, steady, *_ = heading(small)
    small_text = SMOLLM.format(rounds=small.setup["rounds"], machine=f"{machine}; {steady}", code=code)
    parts += [section(small_text, "smollm2-small.json")]
    PAGE.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
