"""`bench compare`: every arm against the base, on every metric, with what may be said; and bars that must hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from teachkv.bench.guards.claims import Claim
from teachkv.bench.judge import Finding, by_round, claim_for
from teachkv.bench.metrics import METRICS
from teachkv.bench.record import Record
from teachkv.bench.tables import Row, median, table
from teachkv.errors import OptionError

HEAD = ("cell", "arm", "metric", "base", "arm's", "decision")
_BAR = re.compile(r"(?P<arm>[^@]+)@(?P<cell>[^>]+)>=(?P<ratio>[0-9.]+)")


@dataclass(frozen=True, slots=True)
class Bar:
    """The arm must reach `ratio` times the base's tok/s in the cell, and the claim must be resolved."""

    arm: str
    cell: str
    ratio: float


def parse_bar(text: str) -> Bar:
    """`ragged@spread-8>=1.2`. Raises OptionError."""
    match = _BAR.fullmatch(text)
    if match is None:
        raise OptionError(f"bar {text!r}: write ARM@CELL>=RATIO, as in ragged@spread-8>=1.2")
    return Bar(match["arm"], match["cell"], float(match["ratio"]))


def compare(record: Record, findings: Sequence[Finding], metrics: Sequence[str], *, markdown: bool) -> str:
    """One line per cell, arm and metric."""
    rows: list[Row] = []
    base = record.arms[0].label
    for cell in record.cells:
        for arm in record.arms[1:]:
            for metric in metrics:
                figures = [median(list(by_round(record, cell, label, metric).values())) for label in (base, arm.label)]
                decision = str(claim_for(record, findings, cell, arm, metric)) if arm.twin_of is None else "A/A"
                rows.append([cell, arm.label, metric, *(f"{figure:.4g}" for figure in figures), decision])
    return table(HEAD, rows, markdown)


def known_metrics(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in METRICS:
            raise OptionError(f"no metric {name!r}: known are {', '.join(METRICS)}")
    return names


def bar_held(record: Record, findings: Sequence[Finding], bar: Bar) -> tuple[bool, str]:
    """A bar that rests on an unresolved claim has not been reached."""
    arm = next((arm for arm in record.arms if arm.label == bar.arm), None)
    if arm is None or bar.cell not in record.cells:
        raise OptionError(f"bar {bar.arm}@{bar.cell}: the record has no such arm or cell")
    found: Claim = claim_for(record, findings, bar.cell, arm)
    # guard[bar]: a ratio that nobody may claim reaches no bar
    # mutant[bar/unresolved-counts]:
    #   - reached = found.status == "resolved" and 1 + found.delta >= bar.ratio
    #   + reached = 1 + found.delta >= bar.ratio
    reached = found.status == "resolved" and 1 + found.delta >= bar.ratio
    return reached, f"bar {bar.arm}@{bar.cell}>={bar.ratio:g}: {'reached' if reached else 'NOT reached'}: {found}"


def across(old: Record, new: Record) -> str:
    """Two records: what differs between calls has no A/A pair, so nothing is claimed."""
    rows: list[Row] = []
    for cell in old.cells:
        for arm in old.arms:
            pair = [by_round(record, cell, arm.label, "tok_s") for record in (old, new)]
            if all(pair):
                a, b = (median(list(values.values())) for values in pair)
                rows.append(
                    [
                        cell,
                        arm.label,
                        "tok_s",
                        f"{a:.4g}",
                        f"{b:.4g}",
                        f"refused: {b / a - 1:+.1%} between two calls, no A/A pair",
                    ]
                )
    return table(HEAD, rows, False)
