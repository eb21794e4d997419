"""What a run found, as plain data, and the terminal's view of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from teachkv.mutate.errors import MutateError
from teachkv.mutate.verdicts import Controls, MutantResult, Verdict, exit_code

VERSION = 1


@dataclass
class Report:
    """All of a run. `left_out` are mutants without a claim among narrowed tests; `notes` are lines to print."""

    results: list[MutantResult]
    controls: Controls
    strict: bool = False
    seconds: float = 0.0
    mutant_seconds: float = 0.0
    left_out: int = 0
    notes: list[str] = field(default_factory=list)
    finished: bool = True
    red: list[str] = field(default_factory=list)

    @classmethod
    def empty(cls) -> Report:
        return cls([], Controls())

    @property
    def code(self) -> int:
        return 1 if self.red else exit_code(self.results, self.controls, self.strict)

    def to_data(self) -> dict[str, Any]:
        data = {**asdict(self), "results": [result.to_data() for result in self.results]}
        return {"version": VERSION, "exit": self.code, **data}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Report:
        """The inverse of to_data; MutateError for another version."""
        if data.get("version") != VERSION:
            raise MutateError(f"a report of version {data.get('version')}; this plugin reads version {VERSION}")
        fields = {key: value for key, value in data.items() if key not in ("version", "exit")}
        fields["results"] = [MutantResult.from_data(result) for result in data["results"]]
        return cls(**{**fields, "controls": Controls(**data["controls"])})


def read_report(path: Path) -> Report:
    """A report written by `--mutate-report=json:PATH`."""
    try:
        return Report.from_data(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MutateError(f"{path}: no readable mutation report ({error})") from error


def merge(reports: list[Report]) -> Report:
    """One report of several shards or lanes. The same mutant twice in one lane is an error."""
    total = Report([], Controls())
    seen: set[tuple[str, str]] = set()
    for report in reports:
        for result in report.results:
            if (result.id, result.lane) in seen:
                raise MutateError(f"mutant '{result.id}' is in two of the merged reports")
            seen.add((result.id, result.lane))
        total.results += report.results
        controls = total.controls
        controls.noop += report.controls.noop
        controls.baseline = max(controls.baseline, report.controls.baseline)
        controls.canary = ", ".join(dict.fromkeys(filter(None, (controls.canary, report.controls.canary))))
        controls.quarantined += [name for name in report.controls.quarantined if name not in controls.quarantined]
        controls.failed += report.controls.failed
        controls.slow += [name for name in report.controls.slow if name not in controls.slow]
        total.strict |= report.strict
        total.seconds += report.seconds
        total.mutant_seconds += report.mutant_seconds
        total.left_out = max(total.left_out, report.left_out)
        total.notes += report.notes
        total.red += report.red
        total.finished &= report.finished
    return total


def term_lines(report: Report, missing: bool = False) -> Iterator[str]:
    """The report for people; with `missing` the diff of each mutant that does not hold."""
    if report.red:
        yield f"red without a mutant, so nothing was run: {len(report.red)} tests"
        yield from (f"  {line}" for line in report.red[:20])
        return
    for result in report.results:
        yield f"  {result.id:<44} {result.verdict:<14}{_detail(result)}"
        yield from (f"      {fault}" for fault in result.faults)
        if not result.holds(report.strict):
            yield from (f"      {line}" for line in result.explanation.splitlines())
            yield from (f"      {line}" for line in result.diff.splitlines() if missing)
    yield _controls_line(report.controls)
    yield from (f"control failed: {text}" for text in report.controls.failed)
    yield from (f"quarantined, differs without a mutant: {name}" for name in report.controls.quarantined)
    yield from (f"slow killer, wants a smaller sibling: {text}" for text in report.controls.slow)
    yield from report.notes
    if report.left_out:
        yield f"{report.left_out} mutants are not claimed by the tests of this run and were left out"
    if not report.finished:
        yield "interrupted: the verdicts above are those that were finished"
    yield _total_line(report)


def _detail(result: MutantResult) -> str:
    parts = ["decoy" if result.decoy else "", f"unpaired: {result.unpaired}" if result.unpaired else ""]
    if result.automatic:
        parts.append("automatic")
    if result.lane != "python":
        parts.append(result.lane)
    if result.how != "hot":
        parts.append(f"cold: {result.how}")
    parts.append(result.killer)
    if result.verdict not in ("killed", "killed(raise)", "survived", "unexercised") and result.text:
        parts.append(result.text.splitlines()[0][:120])
    return "; ".join(filter(None, parts))


def _controls_line(controls: Controls) -> str:
    noop = f"no-op survived {controls.noop} times"
    canary = f"canary killed ({controls.canary})" if controls.canary else "canary not placed: no test reaches a guard"
    state = "FAILED" if controls.failed else "held"
    return f"controls {state}: baseline twice, {controls.baseline} tests; {noop}; {canary}"


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _total_line(report: Report) -> str:
    """`356 mutants of 279 guards: 341 killed, 15 survived (13 decoys, 2 unpaired); all cards hold; ...`."""
    results = [result for result in report.results if not result.automatic]
    counts = Counter(str(result.verdict) for result in results)
    alive = [result for result in results if result.verdict in (Verdict.SURVIVED, Verdict.UNEXERCISED)]
    kinds = {"decoy": sum(r.decoy for r in alive), "unpaired": sum(bool(r.unpaired) for r in alive)}
    words = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    said = ", ".join(
        _many(count, name) if name == "decoy" else f"{count} {name}" for name, count in kinds.items() if count
    )
    bad = [result.id for result in results if not result.holds(report.strict)]
    holding = f"{len(bad)} cards do not hold: {', '.join(bad[:8])}" if bad else "all cards hold"
    automatic = [result for result in report.results if result.automatic]
    left = [result for result in automatic if not result.killer]
    noted = sum(bool(result.unpaired) for result in left)
    more = f"; {len(automatic)} automatic, {len(left)} alive ({noted} explained)" if automatic else ""
    rate = len(report.results) / report.mutant_seconds if report.mutant_seconds else 0.0
    guards = len({result.id.partition("/")[0] for result in results})
    names = {result.id for result in results}  # a kernel's mutant may be judged in two lanes
    head = f"{_many(len(names), 'mutant')} of {_many(guards, 'guard')}: {words}{f' ({said})' if said else ''}"
    return f"{head}; {holding}{more}; {rate:.1f} mutants/s"
