"""All guards over a whole record: what was refused, what may be claimed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from teachkv.bench import guards
from teachkv.bench.arms import Arm
from teachkv.bench.guards.answer import Answer, refused
from teachkv.bench.guards.claims import Claim, claim
from teachkv.bench.guards.outputs import Outputs
from teachkv.bench.metrics import METRICS, figures
from teachkv.bench.record import Record
from teachkv.bench.samples import Sample
from teachkv.bench.workloads import cell as cell_of


@dataclass(frozen=True, slots=True)
class Finding:
    """A guard's answer and what it is about."""

    cell: str
    arm: str
    round: int | None
    answer: Answer

    def __str__(self) -> str:
        where = [self.cell or "run", self.arm, "" if self.round is None else f"sample {self.round}"]
        return f"{', '.join(part for part in where if part)}: {self.answer}"


def sample_answers(sample: Sample, arm: Arm) -> list[Answer]:
    """What each guard that looks at one sample says of it."""
    if sample.failed is not None:
        return [refused("completeness", f"nothing came back: {sample.failed}")]
    cell = cell_of(sample.cell)
    found = [
        guards.completeness(sample, cell),
        guards.in_band_error(sample),
        guards.path_gate(sample, arm),
        guards.probe_purity(sample, cell),
    ]
    if sample.kind == "timed":  # a request alone in the engine has no company for a mechanism to act on
        found.append(guards.engagement(sample, arm))
    return found


def judge(record: Record) -> list[Finding]:
    """Every guard's answer, sample by sample, then cell by cell, then arm by arm."""
    found = [
        Finding(sample.cell, sample.arm, sample.round, answer)
        for sample in record.samples
        for answer in sample_answers(sample, record.arm(sample.arm))
    ]
    return [*found, *cell_findings(record), *arm_findings(record)]


def cell_findings(record: Record) -> Iterator[Finding]:
    for cell in record.cells:
        for round in range(record.setup["rounds"]):
            by_arm = {s.arm: s for arm in record.arms for s in record.of(cell, arm.label) if s.round == round}
            if len(by_arm) > 1:
                yield Finding(cell, "", round, guards.equal_work(by_arm))
        base = outputs(record, cell, record.arms[0])
        for arm in record.arms[1:] if base is not None else []:
            other = outputs(record, cell, arm)
            if base is not None and other is not None:
                yield Finding(cell, arm.label, None, guards.identity(base, other))


def arm_findings(record: Record) -> Iterator[Finding]:
    for arm in record.arms:
        mine = [sample for sample in record.samples if sample.arm == arm.label]
        yield Finding("", arm.label, None, guards.fingerprint(mine, record.harness))


def outputs(record: Record, cell: str, arm: Arm) -> Outputs | None:
    """The completions of round 0, together and alone, where both were run. A peer has a tokenizer of its own."""
    batch, solo = record.of(cell, arm.label), record.of(cell, arm.label, "solo")
    return Outputs(batch[0], solo[0]) if batch and solo and arm.kind != "peer" else None


def refusals(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.answer.failed]


def claim_for(record: Record, findings: Sequence[Finding], cell: str, arm: Arm, metric: str = "tok_s") -> Claim:
    """The arm against the first arm in one cell. What a guard refused is no base for a claim."""
    base = record.arms[0]
    twin = next((other.label for other in record.arms if other.twin_of == base.label), "")
    concerned = (base.label, arm.label, twin, "")
    bad = [f for f in refusals(findings) if f.arm in concerned and f.cell in (cell, "")]
    if bad:
        return Claim("refused", 0.0, None, 0, f"{bad[0].answer.guard} refused {len(bad)}: {bad[0].answer.reason}")
    a, b, again = (by_round(record, cell, label, metric) for label in (base.label, arm.label, twin))
    rounds = sorted(set(a) & set(b))
    compared = [s for label in (base.label, arm.label, twin) for s in record.of(cell, label) if s.round in rounds]
    return claim(
        [a[r] for r in rounds],
        [b[r] for r in rounds],
        [(a[r], again[r]) for r in rounds if r in again],
        ladder=any(sample.ladder for sample in record.of(cell, arm.label)),
        pulses=[median(sample.pulses) for sample in compared if sample.pulses],
    )


def by_round(record: Record, cell: str, arm: str, metric: str) -> dict[int, float]:
    return {sample.round: METRICS[metric][0](figures(sample)) for sample in record.of(cell, arm)}
