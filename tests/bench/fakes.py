"""Runs of the harness on scripted engines: virtual time, no processes, known truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teachkv.bench.arms import Arm, fake_arm
from teachkv.bench.cells import Cell
from teachkv.bench.guards.claims import Claim
from teachkv.bench.judge import Finding, claim_for, judge, refusals
from teachkv.bench.record import Record
from teachkv.bench.samples import Facts, Sample, Served, Step
from teachkv.bench.session import Session, Setup, prepare
from teachkv.bench.worker import run_job, target_of

CELL = "uniform-4:prompt=50,out=10"


def in_process(job: dict[str, Any]) -> list[Sample]:
    return run_job(job, target_of(job))


def measured(
    tmp_path: Path, scripts: Mapping[str, Mapping[str, Any]], *, cells: Sequence[str] = (CELL,), **setup: Any
) -> Record:
    """A whole run; the first script is the base."""
    arms: list[Arm] = [fake_arm(label, script) for label, script in scripts.items()]
    wanted = Setup(cells=tuple(cells), model="fake", **{"rounds": 6, **setup})
    record = prepare(wanted, arms, tmp_path)
    Session(record, tmp_path / "record.json", launcher=in_process, home=tmp_path, tell=lambda line: None).run()
    return record


def said(record: Record, arm: str, cell: str | None = None) -> Claim:
    return claim_for(record, judge(record), cell or record.cells[0], record.arm(arm))


def refused(record: Record) -> dict[tuple[str, str], list[Finding]]:
    """(guard, arm) -> findings."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for finding in refusals(judge(record)):
        found.setdefault((finding.answer.guard, finding.arm), []).append(finding)
    return found


def whole(cell: Cell, **changes: Any) -> Sample:
    """A sample in which every request came back as asked."""
    served = tuple(served_as(ask.prompt, ask.out, digest=f"{i}") for i, ask in enumerate(cell.asks))
    return Sample(**{"arm": "a", "cell": cell.name, "round": 0, "served": served, **changes})


def served_as(prompt: int, out: int, **changes: Any) -> Served:
    times = tuple(0.1 * (i + 1) for i in range(out))
    return Served(
        **{"prompt": prompt, "out": out, "due": 0.0, "sent": 0.0, "times": times, "finish": "length", **changes}
    )


def step(**changes: Any) -> Step:
    return Step(
        **{
            "at": 1.0,
            "seconds": 1.0,
            "forward": 1.0,
            "running": 1,
            "waiting": 0,
            "resident": 1,
            "prefill": 0,
            "decode": 1,
            **changes,
        }
    )


PATH = (
    "path: policy {policy}, batch cache {cache} (strip deferred, ragged), backend {backend} (spec: linear), context 9"
)


def facts(policy: str = "ragged", cache: str = "incremental", backend: str = "reference", **changes: Any) -> Facts:
    line = PATH.format(policy=policy, cache=cache, backend=backend)
    return Facts(**{"path": line, "log": (line + "; seed 1",), "sources": "x", **changes})
