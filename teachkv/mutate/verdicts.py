"""The words of a verdict, the result of one mutant, and the exit code of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

CONTROL_FAILED, USAGE, NOTHING, SURVIVORS, UNDECIDED = 3, 4, 5, 6, 7


class Verdict(StrEnum):
    """Only `killed` and `killed(raise)` count as kills. `compiles` and `no-change` come from a lane without tests."""

    KILLED = "killed"
    KILLED_RAISE = "killed(raise)"
    SURVIVED = "survived"
    UNEXERCISED = "unexercised"
    DECOY_KILLED = "decoy-killed"
    SETUP_ERROR = "setup-error"
    COLLECT_ERROR = "collect-error"
    COMPILE_ERROR = "compile-error"
    TIMEOUT = "timeout"
    CRASH = "crash"
    NOT_APPLIED = "not-applied"
    COMPILES = "compiles"
    NO_CHANGE = "no-change"


OPEN = {Verdict.SETUP_ERROR, Verdict.COLLECT_ERROR, Verdict.COMPILE_ERROR, Verdict.TIMEOUT, Verdict.CRASH}


@dataclass
class MutantResult:
    """What became of one mutant. `faults` are false claims and missing ones; `how` is "hot" or why it ran cold.

    `first..last` are the lines of `path` that it replaces, `claimed` the node ids of its claimed killers.
    """

    id: str
    verdict: Verdict
    path: str = ""
    first: int = 1
    last: int = 1
    replacement: str = ""
    claimed: list[str] = field(default_factory=list)
    lane: str = "python"
    how: str = "hot"
    decoy: bool = False
    unpaired: str | None = None
    killer: str = ""
    text: str = ""
    seconds: float = 0.0
    reached_by: int = 0
    faults: list[str] = field(default_factory=list)
    explanation: str = ""
    diff: str = ""
    tests: dict[str, str] = field(default_factory=dict)
    automatic: bool = False

    def holds(self, strict: bool = False) -> bool:
        """Whether the mutant did what its card says."""
        if self.faults:
            return False
        if self.verdict == Verdict.COMPILES:
            return True
        if self.decoy:
            return self.verdict in (Verdict.SURVIVED, Verdict.UNEXERCISED)
        if self.unpaired:
            return self.verdict in (Verdict.SURVIVED, Verdict.UNEXERCISED)
        return self.verdict == Verdict.KILLED or (self.verdict == Verdict.KILLED_RAISE and not strict)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> MutantResult:
        return cls(**{**data, "verdict": Verdict(data["verdict"])})


@dataclass
class Controls:
    """`failed` are sentences; each makes the whole run worthless. `slow` are killers that take long.

    The rest is for the line of controls.
    """

    noop: int = 0
    canary: str = ""
    baseline: int = 0
    quarantined: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)


def exit_code(results: Iterable[MutantResult], controls: Controls, strict: bool) -> int:
    """0 when every card holds; else 3 (control), 4 (not applied, no change), 6 (card does not hold), 7 (undecided)."""
    # An automatic mutant never gates a run; a note that says it survives, and is wrong, does.
    bad = [result for result in results if (result.faults or not result.automatic) and not result.holds(strict)]
    # guard[controls-first]: with a failed control no verdict means anything, so no other code may cover it
    # origin: zfs-replicate#674, exit codes misattributed
    # mutant[controls-first/survivors-first]:
    #   - if controls.failed:
    #   + if controls.failed and not bad:
    if controls.failed:
        return CONTROL_FAILED
    if any(result.verdict in (Verdict.NOT_APPLIED, Verdict.NO_CHANGE) for result in bad):
        return USAGE
    if any(result.faults or result.verdict not in OPEN for result in bad):
        return SURVIVORS
    return UNDECIDED if bad else 0
