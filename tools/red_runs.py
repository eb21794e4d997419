"""The red runs that the guards' pages show: captured, never typed, and kept in docs/guards/red.json.

    python -m tools.red_runs capture [PYTEST ARGUMENTS]   run the mutants and keep what their tests said
    python -m tools.red_runs merge REPORT                 take over a JSON report of `pytest --mutate`
    python -m tools.red_runs ask                          ask plain pytest where the kept line says nothing

Each run is kept with the digest of the mutant it belongs to, so that a page says so when the code has moved on since.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cuda_kernels.raw import source
from teachkv.mutate.cards import Mutant
from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import read_settings

ROOT = Path(__file__).resolve().parent.parent
RED = ROOT / "docs" / "guards" / "red.json"
SELECT = "not peers and not gpu and not slow and not model"
LINES = 8  # of what a test says are kept
Runs = dict[str, dict[str, Any]]


def digest(mutant: Mutant) -> str:
    """Of what the mutant changes: a red run is shown as long as this is what ran."""
    return hashlib.sha256("\n".join([*mutant.old, "->", *mutant.new]).encode()).hexdigest()[:12]


def capture(arguments: list[str]) -> int:
    """Run the mutants and merge what they did into the kept runs; others are left as they were."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        chosen = [f"--mutate-report=json:{report}", *(arguments or ["-m", SELECT])]
        subprocess.run([sys.executable, "-m", "pytest", "--mutate", *chosen], cwd=ROOT, check=False)
        merge(json.loads(report.read_text(encoding="utf-8")))
    return 0


def merge(report: dict[str, Any]) -> None:
    """Take over a JSON report of `pytest --mutate`."""
    registry, runs = Registry.load(read_settings(ROOT)), read_runs()
    for result in report["results"]:
        if result["automatic"] or result["id"] not in registry.mutants:
            continue
        kept = {key: result[key] for key in ("verdict", "lane", "killer", "text", "reached_by", "explanation", "tests")}
        # The page speaks of the project, not of a machine or of a child's folder.
        kept["text"] = re.sub(r"/\S*/mutate-(\w+/\d+/|\.+)", ".../", kept["text"].replace(f"{ROOT}/", ""))
        kept["of"], before = digest(registry.mutants[result["id"]]), runs.get(result["id"])
        if before and before["of"] == kept["of"]:  # a run traces no more tests than it needs; another knew of more
            kept["reached_by"] = max(kept["reached_by"], before["reached_by"])
        runs[result["id"]] = kept
        if kept["killer"] and not telling(kept["text"]):
            kept["text"] = ask(registry.mutants[result["id"]], kept["killer"])
    keep({name: runs[name] for name in runs if name in registry.mutants})


def keep(runs: Runs) -> None:
    RED.parent.mkdir(parents=True, exist_ok=True)
    RED.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n", encoding="utf-8")


def read_runs() -> Runs:
    runs: Runs = json.loads(RED.read_text(encoding="utf-8")) if RED.exists() else {}
    return runs


def telling(text: str) -> bool:
    """Whether the line says more than that something was asserted."""
    return re.fullmatch(r"\s*AssertionError:?\s*\w*\s*", text) is None


def ask(mutant: Mutant, test: str) -> str:
    """What the killer says under the mutant in plain pytest: the line that fails and pytest's lines about it."""
    options = ["-q", "--tb=short", "-x", "-n", "0", "-p", "no:cacheprovider", "--color=no"]
    with tempfile.TemporaryDirectory() as folder:
        if mutant.path.suffix == ".py":
            options.append(f"--mutate-with={mutant.id}")
            env = dict(os.environ)
        else:
            env = os.environ | {source.OVERRIDE: stand_in(mutant, Path(folder))}
        command = [sys.executable, "-m", "pytest", test, *options]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode != 1:
        raise SystemExit(f"{test} is not red under {mutant.id}:\n{done.stdout[-1500:]}{done.stderr[-500:]}")
    return red_lines(done.stdout)


def stand_in(mutant: Mutant, folder: Path) -> str:
    """The mutated text of a CUDA C++ file, as the kernels' loader takes it in place of the file."""
    ((path, text),) = Registry.load(read_settings(ROOT)).rewrite([mutant]).items()
    (folder / "text.cu").write_text(text, encoding="utf-8")
    return f"{Path(path).relative_to(source.ROOT)}={folder / 'text.cu'}"


def red_lines(output: str) -> str:
    """The last failing line of code and what pytest says of it, without figures that depend on the machine's BLAS."""
    lines = output.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("E  "))
    code = next((line for line in lines[first - 1 :: -1] if line.strip(" ^")), "")
    said = [line[1:].strip() for line in lines[first:] if line.startswith("E  ")]
    empty = ("", "AssertionError", "AssertionError:", "Use -v to get more diff")
    kept = [code.strip(), *(line for line in said if line not in empty)]
    return re.sub(r"(\d\.\d{4})\d+", r"\1", "\n".join(line[:200] for line in kept[:LINES]))


def ask_all() -> None:
    """Fill in what says nothing, for the mutants as they are."""
    registry, runs = Registry.load(read_settings(ROOT)), read_runs()
    for name, run in runs.items():
        same = name in registry.mutants and run["of"] == digest(registry.mutants[name])
        if same and run["killer"] and not telling(run["text"]):
            run["text"] = ask(registry.mutants[name], run["killer"])
            print(f"{name}: {run['text'].splitlines()[0]}", flush=True)
            keep(runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("capture", "merge", "ask"))
    args, more = parser.parse_known_args()
    if args.what == "capture":
        return capture(more)
    if args.what == "merge":
        merge(json.loads(Path(more[0]).read_text(encoding="utf-8")))
    else:
        ask_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
