"""Writes docs/measure/seed-tables.md from the records of the long tables; every figure on the page comes from them.

python -m tools.seed_page
"""

from pathlib import Path

from teachkv.bench.quotes import naming
from teachkv.bench.record import Record
from teachkv.bench.tables import groups, heading, median, table

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE, PAGE = ROOT / "docs" / "evidence", ROOT / "docs" / "measure" / "seed-tables.md"
COMMIT = "cde0268ced993867d6b4ab5307ff1d92db2fbf94"  # whose sources have the hash that the records name
COLUMNS = ("cell", "arm", "tok/s", "every sample", "run_mean", "run_max", "TTFT p50, ms")

HEAD = """# The seed's table, on an H200 and on two cores

Written by `python -m tools.seed_page`. Each table is one command of
[the long tables](bench.md#the-long-tables), a fresh process per sample: the shape of Qwen2.5-0.5B with random
weights, bfloat16, 64 tokens out, prefix cache off, overlap on.

- {machine}
- The sources are those of commit `{commit}`: the records name their hash.

All policies keep their batch in the same way, so that they alone differ; the two arms with *rebuild* show what
`strip=deferred` gains over `eager`, without CUDA graphs. *run_mean* and *run_max* count the sequences of a step.

!!! warning "The host of this machine ran at two speeds"
    The same loop took 15 ms on most of its 16 cores and 28 ms on a few, and a minute later it was others. A decode
    step is bound by the host here, so samples of one arm differ by up to 1.9. In the isolated cell below *packed*
    needed 0.34 to 0.45 ms of host time for a forward pass in four samples and 0.25 in the fifth; the harness of that
    day called the result -40 %. It notes the host's pulse now and calls such a difference unresolved
    ([guard](../guards/steady-machine.md)); these records are from before, so no claim is printed here.
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

One sample per arm: what is no larger than the difference of *bucketed* from itself says nothing.
"""

INVERTED = """
## The cell that inverted, alone

32 prompts of one length, isolated, five samples. The baseline against itself strays by as much as any arm does from
it: nothing may be read off this cell on this machine.
"""


SMOLLM = """
## SmolLM2-135M on two cores of a CPU

`teachkv bench run --preset smollm2-small --rounds {rounds}`: real weights in float32, 16 tokens out at 8 rows, 8 at 128
rows, whose prompts are short (32 tokens, or 16 to 48). A CPU spends most of the time on prompts, so what a policy
gains in decoding is a small part of the whole. One sample per arm.

- {machine}
- {code}
"""


def rows(record: Record) -> list[list[str]]:
    made = []
    for cell, label, _, found in groups(record):
        speeds = (told(median([f.tok_s for f in found])), " ".join(told(f.tok_s) for f in found))
        runs = (f"{median([f.run_mean for f in found]):.1f}", str(max(f.run_max for f in found)))
        made.append([cell, label, *speeds, *runs, f"{median([f.ttft[50] for f in found]) * 1e3:.1f}"])
    return made


def told(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}"


def section(text: str, name: str) -> str:
    path = EVIDENCE / name
    return f"{text}\n{naming(path)}\n\n{table(COLUMNS, rows(Record.load(path)), markdown=True)}\n"


def main() -> None:
    machine = heading(Record.load(EVIDENCE / "seed-inverted.json"))[2]
    parts = [HEAD.format(machine=machine.replace(", load", "; load at the start"), commit=COMMIT)]
    parts += [section(UNIFORM, "seed-uniform.json"), section(SPREAD, "seed-spread.json")]
    small = Record.load(EVIDENCE / "smollm2-small.json")
    _, code, machine, steady, *_ = heading(small)
    small_text = SMOLLM.format(rounds=small.setup["rounds"], machine=f"{machine}; {steady}", code=code)
    parts += [section(INVERTED, "seed-inverted.json"), section(small_text, "smollm2-small.json")]
    PAGE.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
