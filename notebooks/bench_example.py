"""Samples as a run of the harness leaves them behind, made up for the lesson: eight requests of 64 tokens."""

from __future__ import annotations

from collections.abc import Sequence

from teachkv.bench.guards import Answer
from teachkv.bench.guards.outputs import Outputs
from teachkv.bench.samples import Facts, Sample, Served
from teachkv.bench.workloads import cell

CELL = cell("uniform-8:prompt=50,out=64")
PATH = (
    "path: policy {policy}, batch cache incremental (strip deferred, windows masked, ragged), backend reference "
    "(reference: linear), context 2048"
)


def served(out: int, asked: int = 64, digest: str = "") -> Served:
    """A request that asked for `asked` tokens and got `out`, without a word of error."""
    times = tuple(0.1 * (i + 1) for i in range(out))
    return Served(prompt=50, out=asked, due=0.0, sent=0.0, times=times, digest=digest, finish="length")


def whole(outs: Sequence[int] = (64,) * 8, policy: str = "ragged") -> Sample:
    """One run of the cell; the engine says that it ran `policy`."""
    path = PATH.format(policy=policy)
    facts = Facts(path=path, log=(path,), sources="abc")
    return Sample("ragged", CELL.name, 0, served=tuple(served(out) for out in outs), facts=facts)


def outputs(distinct: int) -> Outputs:
    """Eight completions of which so many are different, the same in the batch and alone."""
    eight = tuple(served(64, digest=str(i % distinct)) for i in range(8))
    sample = Sample("ragged", CELL.name, 0, served=eight)
    return Outputs(batch=sample, solo=sample)


def held(answer: Answer) -> bool:
    return answer.status == "held"
