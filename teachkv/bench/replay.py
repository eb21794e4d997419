"""`python -m teachkv.bench.replay [DOCS]`: the traps of the seed document, end to end on the CPU engine.

Each trap is a real run in fresh processes on the tiny model. The page and its record are written from what came back.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teachkv.bench.arms import parse_arm
from teachkv.bench.judge import Finding, claim_for, judge, refusals
from teachkv.bench.machine import describe
from teachkv.bench.quotes import naming, quote
from teachkv.bench.record import Record, save_json
from teachkv.bench.samples import Sample
from teachkv.bench.session import Session, Setup, prepare
from teachkv.bench.trees import HERE

OFF = "enable_prefix_caching=off"
MASKER = "mutant=masker/none-at-one-query,masker-window/drops-lead-pad"


@dataclass(frozen=True, slots=True)
class Trap:
    """What fooled whom, the run that replays it, and what the harness must say."""

    name: str
    story: str
    guard: str
    arms: tuple[str, ...]
    setup: dict[str, Any]
    tell: Callable[[Record, list[Finding]], dict[str, Any]]


def run(trap: Trap) -> Record:
    """One call of the harness, with real processes."""
    setup = Setup(**{"model": "tiny", "rounds": 1, "null": False, "warmup": 1, **trap.setup})
    record = prepare(setup, [parse_arm(text) for text in trap.arms])
    with tempfile.TemporaryDirectory() as folder:
        Session(record, Path(folder) / "record.json", tell=lambda line: None).run()
    return record


def of(findings: list[Finding], guard: str, arm: str) -> Finding:
    return next(finding for finding in findings if (finding.answer.guard, finding.arm) == (guard, arm))


def answered(guard: str, arm: str) -> Callable[[Record, list[Finding]], dict[str, Any]]:
    """What one guard said of one arm, and of the arm beside it."""

    def tell(record: Record, findings: list[Finding]) -> dict[str, Any]:
        found = of(findings, guard, arm).answer
        beside = of(findings, guard, record.arms[0].label).answer
        samples = [record.of(record.cells[0], label)[0] for label in (record.arms[0].label, arm)]
        return {
            "status": found.status,
            "says": found.reason,
            "beside": beside.status,
            "got": tokens(samples[1]),
            "wanted": sum(one.out for one in samples[1].served),
            "errors": sum(one.error is not None for one in samples[1].served),
            "ragged_steps": sum(step.ragged for step in samples[1].steps),
        }

    return tell


def tokens(sample: Sample) -> int:
    return sum(len(one.times) for one in sample.served)


def claimed(record: Record, findings: list[Finding]) -> dict[str, Any]:
    found = claim_for(record, findings, record.cells[0], record.arms[-1])
    return {
        "status": found.status,
        "says": str(found).removeprefix("unresolved: "),
        "delta": found.delta,
        "spread": found.spread,
    }


def vacuous(record: Record, findings: list[Finding]) -> dict[str, Any]:
    found = of(findings, "identity control", record.arms[-1].label).answer
    return {"status": found.status, "says": found.reason}


TRAPS = (
    Trap(
        "433 of 512",
        "The masker has two doors and the dead prefix was hidden behind one of them. Every request returned, no error "
        "was counted, the harness exited with 0; only the number of tokens was wrong.",
        "completeness",
        (f"clean: policy=packed poison=off {OFF}", f"masker: policy=packed poison=off {OFF} {MASKER}"),
        {"cells": ("spread-8:longest=124,stops=1",), "warmup": 0},
        answered("completeness", "masker"),
    ),
    Trap(
        "a file that never ran",
        "A switch was forgotten, another scheduler ran than the one under test, and a result was published.",
        "path gate",
        (
            f"ragged: policy=ragged {OFF}",
            f"forgotten: policy=bucketed {OFF} claims.policy=ragged claims.cache=incremental",
        ),
        {"cells": ("spread-4:longest=96,out=8",)},
        answered("path gate", "forgotten"),
    ),
    Trap(
        "a floor that never acted",
        "An arm claims a mechanism, and nothing shows that it ever did anything.",
        "engagement",
        (f"ragged: policy=ragged {OFF}", f"floor: policy=ragged prefill_floor_steps=4 {OFF}"),
        {"cells": ("uniform-1:prompt=48,out=16",)},
        answered("engagement", "floor"),
    ),
    Trap(
        "the 40-token drain probe",
        "A short probe was sent before each run of the uniform cell, to drain the engine. It was still there when the "
        "cell began, and the uniform control was ragged: it measured the thing under test.",
        "probe purity",
        (f"ragged: policy=ragged {OFF}",),
        {"cells": ("uniform-8:prompt=96,out=16",), "probe": {"prompt": 40, "out": 32, "settle": False}},
        answered("probe purity", "ragged"),
    ),
    Trap(
        "a small delta from a ladder",
        "The same binary read 5 to 10 % apart inside a ladder and alone. Here the second arm differs from the first in "
        "a limit that nothing reaches.",
        "isolation",
        (f"packed: policy=packed {OFF}", f"limit: policy=packed max_num_seqs=127 {OFF}"),
        {
            "cells": ("uniform-4:prompt=48,out=16", "spread-4:longest=96,out=16"),
            "rounds": 3,
            "null": True,
            "ladder": True,
        },
        claimed,
    ),
    Trap(
        "eight copies of one text",
        'A small model answers eight copies of a prompt alike, so "8/8 identical" between two arms proves nothing.',
        "identity control",
        (f"bucketed: policy=bucketed {OFF}", f"ragged: policy=ragged {OFF}"),
        {"cells": ("uniform-8:prompt=48,out=8,repeat=1",), "identity": True},
        vacuous,
    ),
)


def replay(trap: Trap) -> dict[str, Any]:
    """The trap's line of the record."""
    record = run(trap)
    findings = judge(record)
    others = sorted({finding.answer.guard for finding in refusals(findings)} - {trap.guard})
    return {"name": trap.name, "guard": trap.guard, **trap.tell(record, findings), "also_refused": others}


def page(rows: list[dict[str, Any]], record: Path) -> str:
    """The table, every figure quoted from the record."""
    head = "| trap | guard | what the harness says |\n|---|---|---|\n"
    lines = [
        f"| {row['name']} | {row['guard']} | {quote(record.name, f'traps.{i}.status', row['status'])}: "
        f"{quote(record.name, f'traps.{i}.says', row['says'])} |"
        for i, row in enumerate(rows)
    ]
    stories = "\n".join(f"- **{trap.name}.** {trap.story}" for trap in TRAPS)
    return (
        f"# The seed document's traps, replayed\n\n{naming(record)}\n\n"
        "Written by `python -m teachkv.bench.replay`: real runs of the tiny model on the CPU engine, each in fresh "
        "processes. The mutant is laid over the engine's file in the child process; nothing else differs.\n\n"
        f"{head}" + "\n".join(lines) + f"\n\n{stories}\n"
    )


def main(folder: Path) -> int:
    """Writes evidence/traps.json and measure/traps.md. Returns 1 if a trap was not caught."""
    rows = [replay(trap) for trap in TRAPS]
    record = folder / "evidence" / "traps.json"
    save_json({"kind": "traps", "machine": describe(HERE), "traps": rows}, record)
    (folder / "measure" / "traps.md").write_text(page(rows, record), encoding="utf-8")
    caught = ("refused", "cannot-answer", "unresolved")
    return 0 if all(row["status"] in caught for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")))
