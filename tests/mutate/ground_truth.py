"""Checks verdicts the slow, plain way: patch the source on disk, run a fresh pytest on the same tests, compare.

    pytest --mutate --mutate-report=json:report.json
    python tests/mutate/ground_truth.py report.json [--record docs/evidence/mutation-ground-truth.json]

Nothing of the plugin takes part: each mutant gets a copy of the project without any `.pyc`, the lines of the report
are replaced in it, and a few lines of its own tell how each test ended. Prints every verdict that differs; exit code 1
if one does. With `--record` each verdict is kept as it is found, and a second start goes on where the first one ended;
a report of other lanes adds to the record. Kernels in CUDA C++ are compiled by the tests themselves, race lane or not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORDER = """
import json, pytest

seen = []

def pytest_configure(config):
    config.addinivalue_line("markers", "kills(id, ...): as the plugin says, which is not loaded")

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        kind = call.excinfo.type if call.excinfo else AssertionError
        own = issubclass(kind, (AssertionError, pytest.fail.Exception))
        seen.append("setup" if report.when != "call" else "assertion" if own else "raise")
    elif report.when == "call" or report.skipped:
        seen.append(report.outcome)

def pytest_sessionfinish(session, exitstatus):
    with open("truth.json", "w") as file:
        json.dump([int(exitstatus), seen], file)
"""
# The plugin is not loaded: its check of cards would find the patched file drifted and call that a kill.
ENVIRONMENT = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
}
LANES = {"numba-nojit": {"NUMBA_DISABLE_JIT": "1"}, "numba-sim": {"NUMBA_ENABLE_CUDASIM": "1"}}
PACKAGES = ("numpy", "pytest", "hypothesis")  # whose versions the record names
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "site", "*.egg-info")


def patched(root: Path, folder: Path, result: dict[str, Any]) -> Path:
    """A copy of the project in which the mutant is on disk."""
    copy = folder / "project"
    shutil.copytree(root, copy, ignore=LEFT_OUT)
    file = copy / result["path"]
    lines = file.read_text(encoding="utf-8").splitlines()
    first = lines[result["first"] - 1]
    margin = first[: len(first) - len(first.lstrip())]
    new = result["replacement"].splitlines()
    base = min((len(line) - len(line.lstrip()) for line in new if line.strip()), default=0)
    lines[result["first"] - 1 : result["last"]] = [margin + line[base:] for line in new]
    if file.suffix != ".py":  # a kernel's tests read its cards and would find them drifted
        lines = ["" if line.lstrip().startswith("//") else line for line in lines]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (copy / "truth_recorder.py").write_text(RECORDER)
    return copy


def truth(root: Path, result: dict[str, Any], timeout: float) -> str:
    """The verdict of a fresh pytest on the patched copy."""
    with tempfile.TemporaryDirectory() as name:
        copy = patched(root, Path(name), result)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "truth_recorder", "-p", "no:cacheprovider"]
        environment = {**os.environ, **ENVIRONMENT, **LANES.get(result["lane"], {})}
        environment.pop("PYTEST_ADDOPTS", None)
        environment["PYTHONPATH"] = os.pathsep.join([str(copy), os.environ.get("PYTHONPATH", "")])
        try:
            command += ["--", *result["tests"]]
            subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return "timeout"
        record = copy / "truth.json"
        if not record.exists():
            return "crash"
        code, seen = json.loads(record.read_text())
    if code in (2, 4) and not seen:
        return "collect-error"
    for outcome, verdict in (("assertion", "killed"), ("raise", "killed(raise)"), ("setup", "setup-error")):
        if outcome in seen:
            return verdict
    return "unexercised" if set(seen) <= {"skipped"} else "survived"


def expected(result: dict[str, Any]) -> str:
    return "killed" if result["verdict"] == "decoy-killed" else str(result["verdict"])


def differs(result: dict[str, Any], verdict: str) -> list[str]:
    """A line when plain pytest said something else than the plugin."""
    said = expected(result)
    return [] if said == verdict else [f"{result['id']}: the plugin says {said}, plain pytest says {verdict}"]


def verdicts(
    root: Path, results: list[dict[str, Any]], jobs: int, timeout: float
) -> Iterator[tuple[dict[str, Any], str]]:
    """Each result with what plain pytest says. Mutants that ran no test are passed over."""
    ran = [result for result in results if result["tests"]]
    with ThreadPoolExecutor(jobs) as pool:
        yield from zip(ran, pool.map(lambda result: truth(root, result, timeout), ran), strict=True)


def compare(root: Path, report: dict[str, Any], jobs: int = 2, timeout: float = 120.0) -> list[str]:
    """One line per mutant whose verdict differs from the plain one."""
    found = verdicts(root, report["results"], jobs, timeout)
    return [line for result, verdict in found for line in differs(result, verdict)]


def extend(record: Path, root: Path, report: dict[str, Any], jobs: int, timeout: float) -> list[str]:
    """As `compare`, but keeps what was found in `record` and leaves out the mutants that stand there already."""
    kept = json.loads(record.read_text()) if record.exists() else {"verdicts": {}}
    known: dict[str, str] = kept["verdicts"]
    names = {result["id"] for result in report["results"]}
    others = [line for line in kept.get("different", []) if line.partition(": ")[0] not in names]
    todo = [result for result in report["results"] if result["id"] not in known]
    for result, verdict in verdicts(root, todo, jobs, timeout):
        known[result["id"]] = verdict
        about = {
            "command": "python tests/mutate/ground_truth.py report.json --record ...",
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
            "mutants": len(names | set(known)),
            "compared": len(known),
            "different": others + different(report, known),
            "verdicts": {name: known[name] for name in sorted(known)},
        }
        record.write_text(json.dumps(about, indent=1) + "\n")
    return others + different(report, known)


def different(report: dict[str, Any], known: dict[str, str]) -> list[str]:
    """The lines of a report's mutants whose verdict is known and differs."""
    return [line for one in report["results"] if one["id"] in known for line in differs(one, known[one["id"]])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--root", type=Path, default=Path.cwd())
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one mutant's tests")
    parser.add_argument("--record", type=Path, help="keep each verdict here, and go on from what stands here")
    options = parser.parse_args()
    report = json.loads(options.report.read_text())
    if options.record:
        lines = extend(options.record, options.root, report, options.jobs, options.timeout)
    else:
        lines = compare(options.root, report, options.jobs, options.timeout)
    print("\n".join([*lines, f"{len(report['results'])} verdicts compared, {len(lines)} differ"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
