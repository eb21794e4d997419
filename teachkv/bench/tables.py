"""A record as tables, for the terminal or as Markdown. Every sample is shown; a mean alone hides what matters."""

from collections.abc import Iterable, Sequence

from teachkv.bench.judge import Finding, claim_for, refusals
from teachkv.bench.metrics import Figures, figures
from teachkv.bench.record import Record
from teachkv.bench.samples import Sample

Row = list[str]
THROUGHPUT = (
    "cell",
    "arm",
    "tok/s",
    "every sample",
    "prefill",
    "decode",
    "run_mean",
    "run_max",
    "GB/s",
    "of roof",
    "cached",
)
LATENCY = ("cell", "arm", "TTFT p50", "p90", "p99", "TPOT p50", "ITL p50", "ITL p99", "step", "peak MB", "ops/token")
CLAIMS = ("cell", "arm", "against", "decision")


def report(record: Record, findings: Sequence[Finding], *, markdown: bool) -> str:
    """Heading, throughput, latency, claims, and what the guards said."""
    blocks = [
        "\n".join(heading(record)),
        "Throughput, tokens per second (prefill and decode over their own steps)\n\n"
        + table(THROUGHPUT, throughput(record), markdown),
        "Latency in milliseconds, from the intended arrival (median over samples)\n\n"
        + table(LATENCY, latency(record), markdown),
        "Against the first arm, tok/s\n\n" + table(CLAIMS, claims(record, findings), markdown),
        guard_lines(findings),
    ]
    return "\n\n".join(blocks) + "\n"


def heading(record: Record) -> list[str]:
    """What a number is worth without: nothing."""
    setup, print_ = record.setup, record.fingerprint
    models = {s.facts.model for s in record.samples if s.facts.model} or {setup["shape"] or setup["model"]}
    tree = print_["tree"]
    code = f"commit {tree['commit']}" + (f" with changes {tree['dirty'][:12]}" if tree["dirty"] else "")
    gpus = "; ".join(f"{g['name']} (driver {g['driver_version']}, exclusive: {g['exclusive']})" for g in print_["gpus"])
    where = print_["processor"]
    machine = f"{where['name']}, {where['cores']} cores, load {where['load'][0]:.1f}" + (f"; {gpus}" if gpus else "")
    how = "ladder: all cells in one process" if setup["ladder"] else "isolated: a process per cell and sample"
    commits = [
        f"arm {label}: commit {found['commit']}, {found['commits_to_head']} commits before HEAD"
        for label, found in print_.get("commits", {}).items()
    ]
    return [f"model {', '.join(sorted(models))}", code, machine, *steadiness(record), how, *commits]


def steadiness(record: Record) -> list[str]:
    """What the host's own fixed work took around the samples; a machine that shares its cores may be at two speeds."""
    pulses = [pulse * 1e3 for sample in record.samples for pulse in sample.pulses]
    return [f"the host's own loop took {min(pulses):.2f} .. {max(pulses):.2f} ms"] if pulses else []


def throughput(record: Record) -> list[Row]:
    rows = []
    for cell, arm, samples, found in groups(record):
        roof = record.roof.get("bytes_s")
        speed = median([f.bytes_s for f in found])
        rows.append(
            [
                cell,
                arm,
                f"{sum(f.tok_s for f in found) / len(found):.1f}",
                " ".join(f"{f.tok_s:.1f}" for f in found),
                f"{median([f.prefill_tok_s for f in found]):.1f}",
                f"{median([f.decode_tok_s for f in found]):.1f}",
                f"{median([f.run_mean for f in found]):.1f}",
                str(max(f.run_max for f in found)),
                f"{speed / 1e9:.2f}",
                f"{speed / roof:.0%}" if roof and speed else "-",
                f"{max(f.cached for f in found):.0%}" + warm(record, samples),
            ]
        )
    return rows


def warm(record: Record, samples: Sequence[Sample]) -> str:
    """Marks a row whose prompts came out of a cache although the cell shares nothing."""
    from teachkv.bench.workloads import cell

    shares = any(ask.shared for ask in cell(samples[0].cell).asks)
    # guard[warm-cache]: a row that was helped by a cache must say so, or the second run of a command looks faster
    # mutant[warm-cache/silent]:
    #   - helped = not shares and any(one.cached for sample in samples for one in sample.served)
    #   + helped = False
    helped = not shares and any(one.cached for sample in samples for one in sample.served)
    return " WARM" if helped else ""


def latency(record: Record) -> list[Row]:
    rows = []
    for cell, arm, _, found in groups(record):
        values = [[f.ttft.get(p, 0.0) for f in found] for p in (50, 90, 99)] + [
            [f.tpot.get(50, 0.0) for f in found],
            [f.itl.get(50, 0.0) for f in found],
        ]
        values += [[f.itl.get(99, 0.0) for f in found], [f.step_s for f in found]]
        calls = [f.ops_per_token for f in found if f.ops_per_token is not None]
        rows.append(
            [
                cell,
                arm,
                *(f"{median(v) * 1e3:.1f}" for v in values),
                f"{max(f.peak_bytes for f in found) / 1e6:.0f}",
                f"{median(calls):.1f}" if calls else "-",
            ]
        )
    return rows


def claims(record: Record, findings: Sequence[Finding]) -> list[Row]:
    base = record.arms[0].label
    return [
        [cell, arm.label, base, str(claim_for(record, findings, cell, arm))]
        for cell in record.cells
        for arm in record.arms[1:]
        if arm.twin_of is None
    ]


def guard_lines(findings: Sequence[Finding]) -> str:
    """What was refused, in full; what held, as a count; what nobody could check, by name."""
    bad = refusals(findings)
    unverified = sorted(
        {
            f"{f.arm}: {f.answer.guard} unverified ({f.answer.reason})"
            for f in findings
            if f.answer.status == "unverified"
        }
    )
    names = list(dict.fromkeys(f.answer.guard for f in findings))
    lines = [f"Guards: {', '.join(names)}: {len(findings) - len(bad)} answers, {len(bad)} refusals"]
    return "\n".join([*lines, *unverified, *(f"REFUSED {finding}" for finding in bad)])


def groups(record: Record) -> Iterable[tuple[str, str, list[Sample], list[Figures]]]:
    for cell in record.cells:
        for arm in record.arms:
            samples = record.of(cell, arm.label)
            if samples:
                yield cell, arm.label, samples, [figures(sample) for sample in samples]


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if ordered else 0.0


def table(head: Sequence[str], rows: Sequence[Row], markdown: bool) -> str:
    """Columns padded for the eye; numbers right, words left."""
    if markdown:
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
    widths = [max(len(row[i]) for row in [list(head), *rows]) for i in range(len(head))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in [list(head), *rows]
    )
