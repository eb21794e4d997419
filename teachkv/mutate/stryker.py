"""The mutation-testing-report-schema 2.0 form of a report, which other tools and dashboards read."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from teachkv.mutate.registry import Registry
from teachkv.mutate.report import Report
from teachkv.mutate.verdicts import MutantResult, Verdict

STATUS = {
    Verdict.KILLED: "Killed",
    Verdict.KILLED_RAISE: "Killed",
    Verdict.SURVIVED: "Survived",
    Verdict.UNEXERCISED: "NoCoverage",
    Verdict.DECOY_KILLED: "RuntimeError",
    Verdict.SETUP_ERROR: "RuntimeError",
    Verdict.COLLECT_ERROR: "RuntimeError",
    Verdict.COMPILE_ERROR: "CompileError",
    Verdict.TIMEOUT: "Timeout",
    Verdict.CRASH: "RuntimeError",
    Verdict.NOT_APPLIED: "RuntimeError",
    Verdict.COMPILES: "Pending",
    Verdict.NO_CHANGE: "Ignored",
}
_LANGUAGES = {".py": "python", ".cu": "cpp", ".cuh": "cpp", ".cpp": "cpp", ".h": "cpp"}


def stryker_data(report: Report, registry: Registry) -> dict[str, Any]:
    """Files with their mutants, and the tests that were run on them."""
    by_file: dict[str, list[MutantResult]] = defaultdict(list)
    for result in report.results:
        by_file[result.path].append(result)
    files = {}
    for name, results in by_file.items():
        path = registry.root / name
        source = path.read_text(encoding="utf-8")
        mutants = [_mutant(result, source.splitlines(), report.strict) for result in results]
        files[name] = {"language": _LANGUAGES.get(path.suffix, "text"), "source": source, "mutants": mutants}
    return {
        "schemaVersion": "2.0",
        "thresholds": {"high": 100, "low": 80},
        "files": files,
        "testFiles": _tests(report),
        "framework": {"name": "pytest --mutate"},
    }


def _mutant(result: MutantResult, lines: list[str], strict: bool) -> dict[str, Any]:
    first, last = lines[result.first - 1], lines[result.last - 1]
    status, reason = STATUS[result.verdict], result.text or result.explanation
    if result.verdict == Verdict.KILLED_RAISE and strict:
        status = "RuntimeError"
    if (result.decoy or result.unpaired) and result.verdict in (Verdict.SURVIVED, Verdict.UNEXERCISED):
        status, reason = "Ignored", f"unpaired: {result.unpaired}" if result.unpaired else "a decoy: it must survive"
    return {
        "id": result.id if result.lane == "python" else f"{result.id} in lane {result.lane}",
        "mutatorName": result.id,
        "location": {
            "start": {"line": result.first, "column": len(first) - len(first.lstrip()) + 1},
            "end": {"line": result.last, "column": len(last.rstrip()) + 1},
        },
        "replacement": result.replacement,
        "status": status,
        "statusReason": reason,
        "killedBy": [result.killer] if result.killer else [],
        "coveredBy": sorted(result.tests),
        "testsCompleted": len(result.tests),
        "duration": round(result.seconds * 1000, 1),
    }


def _tests(report: Report) -> dict[str, Any]:
    names = sorted({nodeid for result in report.results for nodeid in result.tests})
    files: dict[str, Any] = {}
    for nodeid in names:
        path, _, name = nodeid.partition("::")
        files.setdefault(path, {"tests": []})["tests"].append({"id": nodeid, "name": name})
    return files
