"""Mutants per second beside mutmut and cosmic-ray: the same package, the same tests, one machine, one after the other.

    python -m venv race && race/bin/pip install mutmut==3.8.1 cosmic-ray==8.7.0 pytest .
    race/bin/python tests/mutate/race.py

Each tool makes the mutants it makes by itself; ours are the cards and `--mutate-auto`. The time is that of the whole
command: start, baseline, controls (ours alone has them) and mutants. mutmut and ours use as many children as there
are CPUs; cosmic-ray's local runner knows one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import entry_points, version
from pathlib import Path

from teachkv.bench.record import save_json

FUNCTION = """
def f{n}(x: int) -> int:
    # guard[g{n}]: nothing below zero
    # mutant[g{n}/removed]:
    #   - if x < 0:
    #   -     return 0
    #   + pass
    if x < 0:
        return 0
    return x + {n} + 9
"""
TEST = """
@pytest.mark.kills("g{n}/removed")
def test_f{n}():
    assert [f{n}(x) for x in (-1, 0, 1)] == [0, {n} + 9, {n} + 10]
"""
PROJECT = """
[tool.teachkv-mutate]
packages = ["toy"]
[tool.pytest.ini_options]
pythonpath = ["."]
markers = ["kills"]
[tool.mutmut]
source_paths = ["toy/"]
pytest_add_cli_args_test_selection = ["tests/"]
pytest_add_cli_args = ["-p", "no:teachkv_mutate"]
"""
COSMIC = """
[cosmic-ray]
module-path = "toy"
timeout = 10.0
excluded-modules = []
test-command = "{python} -m pytest -x -q -p no:cacheprovider -p no:teachkv_mutate tests"
[cosmic-ray.distributor]
name = "local"
"""


def make(folder: Path, functions: int) -> None:
    """The package: short functions with a guard each, and a test of well under a millisecond for each."""
    for name in ("toy", "tests"):
        (folder / name).mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "cosmic.toml").write_text(COSMIC.format(python=sys.executable))
    (folder / "toy/__init__.py").write_text("")
    numbers = range(1, functions + 1)
    (folder / "toy/core.py").write_text("".join(FUNCTION.format(n=n) for n in numbers))
    head = f"import pytest\nfrom toy.core import {', '.join(f'f{n}' for n in numbers)}\n"
    (folder / "tests/test_core.py").write_text(head + "".join(TEST.format(n=n) for n in numbers))


def run(folder: Path, *command: str) -> str:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 6):
        raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def ours(folder: Path) -> int:
    installed = any(found.name == "teachkv_mutate" for found in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "teachkv.mutate.plugin"]
    run(
        folder,
        sys.executable,
        "-m",
        "pytest",
        *plugin,
        "-q",
        "--mutate",
        "--mutate-auto",
        "--mutate-report=json:r.json",
    )
    return len(json.loads((folder / "r.json").read_text())["results"])


def mutmut(folder: Path) -> int:
    text = run(folder, sys.executable, "-m", "mutmut", "run", "--max-children", str(os.cpu_count()))
    return int(re.findall(r"(\d+)/\1", text)[-1])


def cosmic_ray(folder: Path) -> int:
    for verb in ("init", "exec"):
        run(folder, "cosmic-ray", verb, "cosmic.toml", "session.sqlite")
    with sqlite3.connect(folder / "session.sqlite") as database:
        return int(database.execute("select count(*) from work_results").fetchone()[0])


OURS = "teachkv"
TOOLS: dict[str, Callable[[Path], int]] = {OURS: ours, "mutmut": mutmut, "cosmic-ray": cosmic_ray}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--functions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1, help="all tools once in each, in turn")
    parser.add_argument("--tool", action="append", choices=list(TOOLS), help="only these")
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    print(f"{options.functions} functions, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    rates: dict[str, list[float]] = {name: [] for name in options.tool or TOOLS}
    counts: dict[str, int] = {}
    loads: list[float] = []
    for _ in range(options.rounds):
        loads.append(round(os.getloadavg()[0], 1))
        for name, found in rates.items():
            counts[name], seconds = timed(TOOLS[name], options.functions)
            found.append(counts[name] / seconds)
            print(f"{name:<16} {counts[name]:5} mutants {seconds:8.1f} s {found[-1]:8.2f} mutants/s", flush=True)
    if options.record is not None:
        save_json(summary(options.functions, counts, rates, loads), options.record)
    return 0


def timed(tool: Callable[[Path], int], functions: int) -> tuple[int, float]:
    """(mutants, seconds of the whole command)"""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), functions)
        begun = time.perf_counter()
        mutants = tool(Path(folder))
        return mutants, time.perf_counter() - begun


def summary(
    functions: int, counts: dict[str, int], rates: dict[str, list[float]], loads: list[float]
) -> dict[str, object]:
    """Machine, versions, every round and the median of each tool; `ahead`: ours over the faster peer."""
    median = {name: round(statistics.median(found), 2) for name, found in rates.items()}
    peers = [rate for name, rate in median.items() if name != OURS]
    only = "".join(f" --tool {name!r}" for name in rates) if len(rates) < len(TOOLS) else ""
    return {
        "what": "mutants per second of the whole command: one package, the same tests, tools in turn",
        "command": f"python tests/mutate/race.py --functions {functions} --rounds {len(loads)}{only}",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": {name: version(name) for name in ("pytest", "mutmut", "cosmic-ray")},
        "functions": functions,
        "load_before_each_round": loads,
        "mutants": counts,
        "mutants_per_second": {name: [round(rate, 2) for rate in found] for name, found in rates.items()},
        "median": median,
        "ahead": round(median[OURS] / max(peers), 2) if OURS in median and peers else None,
    }


if __name__ == "__main__":
    sys.exit(main())
