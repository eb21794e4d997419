"""The kinds of `--mutate-report`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from teachkv.mutate.errors import MutateError
from teachkv.mutate.page import page
from teachkv.mutate.registry import Registry
from teachkv.mutate.report import Report, term_lines
from teachkv.mutate.stryker import stryker_data

Writer = Callable[[Report, Registry], str]


def _json(report: Report, registry: Registry) -> str:
    return json.dumps(report.to_data(), indent=1) + "\n"


def _stryker(report: Report, registry: Registry) -> str:
    return json.dumps(stryker_data(report, registry), indent=1) + "\n"


FILES: dict[str, Writer] = {"json": _json, "stryker": _stryker, "html": page}


def write(report: Report, registry: Registry, kind: str, path: Path | None) -> list[str]:
    """Writes one report; what belongs on the terminal is returned. Raises MutateError."""
    if kind in FILES:
        if path is None:
            raise MutateError(f"--mutate-report={kind} needs a path, as in {kind}:report.{kind}")
        try:
            path.write_text(FILES[kind](report, registry), encoding="utf-8")
        except OSError as error:
            raise MutateError(f"--mutate-report={kind}:{path}: {error.strerror}") from error
        return [f"wrote {path}"]
    if path is not None or kind not in ("term", "term-missing", "github"):
        known = ", ".join(["term", "term-missing", "github", *(f"{name}:PATH" for name in FILES)])
        raise MutateError(f"--mutate-report={kind}: unknown kind; known are {known}")
    if kind == "github":
        return list(github_lines(report, registry))
    return list(term_lines(report, missing=kind == "term-missing"))


def check_kinds(kinds: list[str]) -> None:
    """Refuses a wrong kind before the run rather than after it."""
    for kind in kinds:
        name, _, path = kind.partition(":")
        if name in FILES and path:
            if not Path(path).absolute().parent.is_dir():
                raise MutateError(f"--mutate-report={kind}: no folder {Path(path).absolute().parent}")
        elif name in FILES or path or name not in ("term", "term-missing", "github"):
            write(Report.empty(), Registry(Path(), []), name, Path(path) if path else None)


def github_lines(report: Report, registry: Registry) -> Iterator[str]:
    """Workflow commands that put each card that does not hold on its line of a pull request."""
    for result in report.results:
        if result.holds(report.strict) or result.automatic:
            continue
        text = "; ".join([f"{result.id} {result.verdict}", *result.faults]).replace("%", "%25")
        yield f"::error file={result.path},line={result.first},title=mutant::{text}"
