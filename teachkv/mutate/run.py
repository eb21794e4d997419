"""A `--mutate` session from collected tests to a written report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from teachkv.mutate.auto import automatic_mutants, check_notes
from teachkv.mutate.campaign import Campaign
from teachkv.mutate.cards import Mutant
from teachkv.mutate.claims import find_claims, unknown_claims
from teachkv.mutate.errors import MutateError
from teachkv.mutate.lanes import KERNEL_LANES, check_tools, current_lane, run_lane
from teachkv.mutate.needed import Needed, without
from teachkv.mutate.ptx import run_ptx_lane
from teachkv.mutate.registry import Registry
from teachkv.mutate.report import Report, merge
from teachkv.mutate.selection import is_narrowed, lane_of, lanes_of, parse_lanes, select
from teachkv.mutate.settings import read_settings
from teachkv.mutate.swap import RanBefore
from teachkv.mutate.verdicts import Controls


class Run:
    """Holds what is known so far, so that Ctrl-C can still report it."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.ran = RanBefore(file.path for file in registry.files)
        self.campaigns: list[Campaign] = []
        self.others: list[Report] = []
        self.begun = time.monotonic()
        self.left_out = 0
        self.finished = False
        self.nothing = ""
        self.notes: list[str] = []
        self.automatic: list[Mutant] = []

    def execute(self, session: pytest.Session) -> None:
        """Everything but printing. Raises MutateError for drifted cards and wrong options (exit 4)."""
        registry, option = self.registry, session.config.option
        if not registry.files:
            raise MutateError(f"no cards; set [tool.teachkv-mutate] packages in {registry.root / 'pyproject.toml'}")
        claims = find_claims(self._items(session, "python"))
        lanes = parse_lanes(option.mutate_lane)
        chosen = {lane: select(registry, claims, session.config, lane) for lane in lanes}
        if not any(chosen.values()):
            self.nothing = "no mutant selected; see --mutate-list"
            return
        part = bool(option.mutate_only or option.mutate_shard or is_narrowed(session.config))
        check_cards(registry, session.items, {m.path for ms in chosen.values() for m in ms} if part else None)
        if not option.mutate_only and not option.mutate_shard:
            judged = [m for m in registry.mutants.values() if not set(lanes).isdisjoint(lanes_of(registry, m))]
            self.left_out = len(judged) - len({m.id for ms in chosen.values() for m in ms})
            self.notes = list(other_lanes(registry, lanes))
        for lane in [lane for lane in lanes if chosen[lane]]:
            if lane == "nvrtc":
                self.others.append(run_ptx_lane(registry, read_settings(session.config.rootpath), chosen[lane]))
            elif lane == current_lane() or lane in KERNEL_LANES:
                self._campaign(session, lane, chosen[lane])
            else:
                self.others.append(run_lane(session.config, lane))
        self.finished = True

    def _campaign(self, session: pytest.Session, lane: str, mutants: list[Mutant]) -> None:
        """One lane in this process."""
        option, items = session.config.option, self._items(session, lane)
        check_tools(lane, read_settings(session.config.rootpath))
        if option.mutate_auto is not None:
            check_notes(self.registry)
            made = automatic_mutants(self.registry, mutants, option.mutate_auto)
            self.automatic, mutants = self.automatic + made, mutants + made
        needed = Needed(items, self.registry, find_claims(items), option)
        needed.everything |= lane == "gpu"  # few tests, and races whose kill none of them can promise
        campaign = Campaign(session, self.registry, mutants, lane, self.ran, needed)
        self.campaigns.append(campaign)
        with campaign:
            campaign.run()

    def _items(self, session: pytest.Session, lane: str) -> list[pytest.Item]:
        """The tests that may take part: on a device its own, else all that the settings do not rule out."""
        if lane == "gpu":
            return [item for item in session.items if item.get_closest_marker("gpu")]
        return without(session.items, read_settings(session.config.rootpath).without, session.config)

    def report(self, strict: bool) -> Report:
        """The report of what was finished."""
        parts = [self._part(campaign, strict) for campaign in self.campaigns] + self.others
        report = merge(parts) if parts else Report([], Controls())
        order = {name: number for number, name in enumerate([*self.registry.mutants, *(m.id for m in self.automatic)])}
        report.results.sort(key=lambda result: order.get(result.id, len(order)))
        report.notes += self.notes
        report.strict, report.left_out, report.finished = strict, self.left_out, self.finished
        report.seconds = time.monotonic() - self.begun
        return report

    def _part(self, campaign: Campaign, strict: bool) -> Report:
        mine = Report(campaign.results, campaign.controls, strict)
        mine.mutant_seconds, mine.red = campaign.mutant_seconds, campaign.baseline.red
        if campaign.spawns_because:
            mine.notes.append(f"no forking: {campaign.spawns_because}; each child was a fresh interpreter")
        return mine


def check_cards(registry: Registry, items: list[pytest.Item], only: set[Path] | None) -> None:
    """No run on drifted cards: its verdicts would be about other code. A part of a run checks the files it uses."""
    files = [file for file in registry.files if only is None or file.path in only]
    problems = [problem for file in files for problem in registry.check_file(file)]
    problems += registry.problems + unknown_claims(registry, items)
    if problems:
        lines = [problem.show(registry.root) for problem in problems]
        raise MutateError("\n".join([f"{len(lines)} cards are wrong, nothing was run", *lines]))


def other_lanes(registry: Registry, lanes: list[str]) -> Iterator[str]:
    """Says how many mutants only another lane could judge."""
    mutants = registry.mutants.values()
    counts = Counter(lane_of(registry, m) for m in mutants if set(lanes).isdisjoint(lanes_of(registry, m)))
    for lane, count in counts.items():
        yield f"{count} mutants belong to lane {lane}, which was not asked for"


def write_reports(report: Report, kinds: list[str], registry: Registry) -> list[str]:
    """Writes the asked-for files and returns the lines for the terminal. Raises MutateError for a wrong kind."""
    from teachkv.mutate.formats import write

    if current_lane() != "python":
        kinds = kinds[-1:]
    lines: list[str] = []
    for kind in kinds or ["term"]:
        name, _, path = kind.partition(":")
        lines += write(report, registry, name, Path(path) if path else None)
    return lines
