"""What a test's reports mean: one outcome per test, and whether a failure is an assertion's."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate.reach import ReachTracer

PASSED, ASSERTION, RAISE, SETUP, SKIPPED = "passed", "assertion", "raise", "setup", "skipped"


@dataclass
class TestOutcome:
    """`outcome` is passed, assertion, raise, setup (setup or teardown failed) or skipped (xfail and xpass too).

    `seconds` are those of the clock, `cpu` of this process. `reached` are the mutants whose span the test ran,
    `shared` those that its fixtures ran, `seen` the observed calls as (fingerprint, readable). `own`: the failure was
    raised by the test's file, not by the code it calls.
    """

    __test__ = False
    nodeid: str
    outcome: str = PASSED
    text: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    reached: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    seen: list[tuple[str, str]] = field(default_factory=list)
    own: bool = False

    @property
    def failed(self) -> bool:
        return self.outcome in (ASSERTION, RAISE, SETUP)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> TestOutcome:
        return cls(**{**data, "reached": tuple(data["reached"]), "shared": tuple(data["shared"])})


class Recorder:
    """Sees the final report of every phase, after skip and xfail handling, with the exception itself."""

    def __init__(self, packages: tuple[Path, ...]) -> None:
        self.current: TestOutcome | None = None
        self.tracer: ReachTracer | None = None
        self._packages = packages

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self.current is not None:
            self.current.seconds += call.duration
            self._note(self.current, report, call.excinfo)
            if call.excinfo is not None:
                self.current.own = self._is_own(call.excinfo, item.path)
            if report.when == "setup" and self.tracer is not None:
                self.current.shared = tuple(sorted(self.tracer.hit))
        return report

    def _is_own(self, excinfo: pytest.ExceptionInfo[BaseException], test: Path) -> bool:
        """Whether the innermost frame that is the test's or a package's is the test's."""
        for entry in reversed(excinfo.traceback):
            path = Path(entry.path)
            if path == test or any(path.is_relative_to(package) for package in self._packages):
                return path == test
        return False

    def _note(self, outcome: TestOutcome, report: pytest.TestReport, excinfo: Any) -> None:
        # guard[xfail-is-no-pass]: a test that is expected to fail says nothing by failing
        # mutant[xfail-is-no-pass/passes]:
        #   - if report.skipped or hasattr(report, "wasxfail"):
        #   + if report.skipped and not hasattr(report, "wasxfail"):
        if report.skipped or hasattr(report, "wasxfail"):
            outcome.outcome, outcome.text = SKIPPED, str(getattr(report, "wasxfail", ""))
        elif report.failed and outcome.outcome == PASSED:
            error = excinfo.value if excinfo is not None else None
            outcome.text = one_line(error) if error is not None else str(report.longrepr)
            if report.when != "call":
                outcome.outcome = SETUP
            else:
                outcome.outcome = ASSERTION if error is None or is_assertion(error) else RAISE


def is_assertion(error: BaseException) -> bool:
    """An assert, `pytest.fail` (as in "DID NOT RAISE"), a failed doctest, or a group of nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_assertion(inner) for inner in error.exceptions)
    names = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, (AssertionError, pytest.fail.Exception)) or "DocTestFailure" in names


def one_line(error: BaseException) -> str:
    """`AssertionError: assert -1 == 0`, cut to a readable length."""
    text = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    return text if len(text) <= 200 else text[:197] + "..."
