"""A run: which samples are wanted, in which order, and what is still missing of them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teachkv.bench import capacity, machine, roof, workloads
from teachkv.bench.arms import Arm, check_labels
from teachkv.bench.launch import Launcher, launch
from teachkv.bench.order import orders
from teachkv.bench.record import Record
from teachkv.bench.sources import harness_hash
from teachkv.bench.trees import HERE, Trees, commits
from teachkv.errors import OptionError


@dataclass(frozen=True, slots=True)
class Setup:
    """What `bench run` was asked for.

    cells: names; rounds: samples per arm and cell; ladder: all cells in one process per arm and round.
    warmup: requests before the cell; probe: [prompt, out, settle], the fault that the seed document had; identity: also
    run each request alone; null: measure the first arm twice.
    """

    cells: tuple[str, ...]
    model: str = "smollm2"
    shape: str | None = None
    rounds: int = 5
    ladder: bool = False
    warmup: int = 1
    probe: dict[str, Any] | None = None
    identity: bool = False
    null: bool = True
    seed: int = 0
    limit: float = 600.0

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"cells": list(self.cells)}


@dataclass(frozen=True, slots=True)
class Task:
    """One process: an arm, the cells that it runs in order, and its place in the round."""

    arm: Arm
    cells: tuple[str, ...]
    round: int
    position: int
    kind: str = "timed"

    def keys(self, ladder: bool) -> list[tuple[str, str, int, str, bool]]:
        return [(self.arm.label, cell, self.round, self.kind, ladder and len(self.cells) > 1) for cell in self.cells]


def plan(setup: Setup, arms: Sequence[Arm]) -> list[Task]:
    """All tasks in order: round by round, cell by cell, the arms of a cell next to one another in time."""
    groups = [setup.cells] if setup.ladder else [(cell,) for cell in setup.cells]
    by_group = [orders(len(arms), setup.rounds, setup.seed + number) for number in range(len(groups))]
    tasks = [
        Task(arms[which], group, round, position)
        for round in range(setup.rounds)
        for group, order in zip(groups, by_group, strict=True)
        for position, which in enumerate(order[round])
    ]
    if setup.identity:
        tasks += [Task(arm, (cell,), 0, 0, "solo") for cell in setup.cells for arm in arms if arm.twin_of is None]
    return tasks


def prepare(setup: Setup, arms: list[Arm], home: Path = HERE) -> Record:
    """A record with nothing in it yet. Raises OptionError for what cannot be measured here."""
    check_labels(arms)
    if not arms or not setup.cells:
        raise OptionError("nothing to measure: give at least one arm and one cell")
    if len(set(setup.cells)) < len(setup.cells):
        raise OptionError("a cell is named twice: ask for more rounds instead")
    if setup.rounds < 1:
        raise OptionError(f"{setup.rounds} samples per arm: take at least one")
    for name in setup.cells:
        workloads.cell(name)
    with_null = [*arms[:1], *([arms[0].twin()] if setup.null else []), *arms[1:]]
    fingerprint = machine.describe(home) | {"commits": commits(home, arms)}
    return Record(setup.to_json(), with_null, fingerprint)


def resume(path: Path, setup: Setup, arms: list[Arm], home: Path = HERE) -> Record:
    """The record at `path`, to be gone on with. Raises OptionError if it holds something else."""
    old, new = Record.load(path), prepare(setup, arms, home)
    if (old.setup, [a.to_json() for a in old.arms]) != (new.body()["setup"], [a.to_json() for a in new.arms]):
        raise OptionError(f"{path}: was measured with other cells, arms or options; give another --out")
    # guard[resume]: samples of two versions in one table are two tables
    # mutant[resume/any-sources]:
    #   - if old.fingerprint["tree"]["sources"] != new.fingerprint["tree"]["sources"]:
    #   + if old.fingerprint["tree"] is new.fingerprint["tree"]:
    if old.fingerprint["tree"]["sources"] != new.fingerprint["tree"]["sources"]:
        raise OptionError(f"{path}: was measured on other sources; give another --out")
    return old


@dataclass(slots=True)
class Session:
    """Carries a record's tasks out. `tell` gets a line, `progress` a (done, all, label) after each process."""

    record: Record
    path: Path
    launcher: Launcher = launch
    home: Path = HERE
    tell: Callable[[str], None] = print
    progress: Callable[[int, int, str], None] = lambda done, total, label: None
    stop_after: float | None = None

    def run(self) -> bool:
        """True if every sample is there now. Ctrl-C passes through; what was finished before it has been saved."""
        began = time.monotonic()
        setup = Setup(**{**self.record.setup, "cells": tuple(self.record.setup["cells"])})
        self.record.harness.append(harness_hash(HERE))
        if not self.record.roof and self.launcher is launch:
            self.record.roof = roof.memory_roof()
        with Trees(self.home) as trees:
            self.announce()
            tasks = plan(setup, self.record.arms)
            for number, task in enumerate(tasks):
                if self.stop_after is not None and time.monotonic() - began > self.stop_after:
                    self.tell(f"stopped after {self.stop_after:.0f} s as asked; --resume adds the rest")
                    break
                self.one(setup, task, number, trees)
                self.progress(number + 1, len(tasks), f"{task.arm.label} {' '.join(task.cells)}")
        self.record.harness.append(harness_hash(HERE))
        self.record.save(self.path)
        return all(self.record.has(key) for task in tasks for key in self.resolved(setup, task).keys(setup.ladder))

    def announce(self) -> None:
        for label, found in self.record.fingerprint.get("commits", {}).items():
            distance = f"{found['commits_to_head']} commits before HEAD {found['head']}"
            self.tell(f"arm {label!r}: commit {found['commit']}, {distance}")

    def one(self, setup: Setup, task: Task, number: int, trees: Trees) -> None:
        """One process, unless its samples are there already."""
        for cell in task.cells:
            self.measure_capacity(setup, cell, trees)
        task = self.resolved(setup, task)
        if all(self.record.has(key) for key in task.keys(setup.ladder)):
            return
        self.record.add(self.launcher(self.job(setup, task, number, trees)))
        self.record.save(self.path)

    def job(self, setup: Setup, task: Task, number: int, trees: Trees) -> dict[str, Any]:
        return {
            "arm": task.arm.to_json(),
            "cells": list(task.cells),
            "round": task.round,
            "position": task.position,
            "serial": number,
            "kind": task.kind,
            "model": setup.model,
            "shape": setup.shape,
            "root": str(trees.root(task.arm)),
            "texts": trees.texts(task.arm),
            "warmup": setup.warmup,
            "probe": setup.probe,
            "limit": setup.limit,
        }

    def resolved(self, setup: Setup, task: Task) -> Task:
        """Cells that ask for a share of the capacity get the rate that it comes to."""
        names = (capacity.with_rate(self.record, cell) if workloads.load_of(cell) else cell for cell in task.cells)
        return Task(task.arm, tuple(names), task.round, task.position, task.kind)

    def measure_capacity(self, setup: Setup, cell: str, trees: Trees) -> None:
        """Once for each round, for all loads together, before anything takes a share of it."""
        if not workloads.load_of(cell) or capacity.samples(self.record, cell):
            return
        at_once = workloads.at_once(cell)
        for round in range(setup.rounds):
            job = self.job(setup, Task(self.record.arms[0], (at_once,), round, 0, "capacity"), round, trees)
            # guard[capacity-warm]: an engine that still compiles shows a tenth of what it can; half of that is idle
            # mutant[capacity-warm/as-given]:
            #   - job["warmup"] = len(workloads.cell(at_once).asks)
            #   + pass
            job["warmup"] = len(workloads.cell(at_once).asks)
            self.record.add(self.launcher(job))


def labels(record: Record) -> Iterator[tuple[str, Arm]]:
    """Every cell with every arm but the A/A twin."""
    for cell in record.cells:
        for arm in record.arms:
            if arm.twin_of is None:
                yield cell, arm
