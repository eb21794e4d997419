"""The page with the side-by-side figures is what the command writes, to the letter."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from teachkv.schedule import Scheduler
from teachkv.schedule.report import all_different, spread, table
from teachkv.schedule.simulate import Job, Stuck, simulate
from teachkv.schedule.timeline import timeline

DOCS = Path(__file__).parents[2] / "docs" / "measure"


def test_the_page_is_what_one_command_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "teachkv.schedule.report", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    written = [Path(line) for line in done.stdout.splitlines()]
    assert [path.name for path in written] == ["schedulers.md", "schedulers-spread.svg", "schedulers-different.svg"]
    for path in written:
        assert path.read_text() == (DOCS / path.name).read_text(), f"run: python -m teachkv.schedule.report {DOCS}"


def test_workloads_are_as_described() -> None:
    lengths = [job.prompt for job in spread()]
    assert sorted(set(lengths)) == list(range(64, 513, 64))
    assert all(lengths.count(length) == 16 for length in lengths)
    assert len({job.prompt for job in all_different()}) == 128


def test_the_table_counts_what_the_run_did() -> None:
    run = simulate(Scheduler("bucketed"), [Job(0, 5, 3), Job(1, 9, 1)])
    [line] = table([("x", run)]).splitlines()[2:]
    assert line == "| x | 4 | 2 | 1.0 | 1 | 2 | 2 | 2 | 9 |"


def test_a_picture_is_well_formed_and_draws_every_change() -> None:
    run = simulate(Scheduler("packed"), [Job(0, 5, 4), Job(1, 9, 2)])
    text = timeline("a <b>", [("one & only", run)], 10)
    ElementTree.fromstring(text)
    assert "prefers-color-scheme: dark" in text
    defined = set(re.findall(r"--(\w+):", text))
    assert set(re.findall(r"var\(--(\w+)\)", text)) == defined
    [area] = re.findall(r'class="run" d="([^"]*)"', text)
    assert area == "M190 102V56.0H314.0V79.0H438.0V102Z", "2 run for 2 steps, then 1 for 2 more"


def test_a_simulation_that_does_not_end_says_so() -> None:
    with pytest.raises(Stuck, match="after 3 steps"):
        simulate(Scheduler("packed"), [Job(0, 5, 100)], limit=3)
