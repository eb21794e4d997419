"""Guard and exercise pages, from the cards in the code and a captured run of `pytest --mutate`.

    python tools/guard_pages.py capture [PYTEST ARGUMENTS]   run the mutants, keep the red runs in docs/guards/red.json
    python tools/guard_pages.py merge REPORT                 take over a JSON report of such a run
    python tools/guard_pages.py write FOLDER                 write the pages (the site makes them as it is built)

Reason, origin, code and diffs are read from the code as it is; only the red runs are kept, and each is kept with the
digest of the mutant it belongs to, so that a page says so when the code has moved on since.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from teachkv.mutate.cards import Guard, Mutant
from teachkv.mutate.errors import MutateError
from teachkv.mutate.exercise import Exercise, load_exercises
from teachkv.mutate.listing import diff_lines
from teachkv.mutate.registry import Registry, relative
from teachkv.mutate.settings import Settings, read_settings

ROOT = Path(__file__).resolve().parent.parent
RED = ROOT / "docs" / "guards" / "red.json"
SELECT = "not peers and not gpu and not slow and not model"
Runs = dict[str, dict[str, Any]]
TRUTH = ROOT / "docs" / "evidence" / "mutation-ground-truth.json"
AROUND = 3  # lines of code shown on either side of a guard


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
    known = {name: runs[name] for name in sorted(runs) if name in registry.mutants}
    RED.parent.mkdir(parents=True, exist_ok=True)
    RED.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def read_runs() -> Runs:
    runs: Runs = json.loads(RED.read_text(encoding="utf-8")) if RED.exists() else {}
    return runs


def pages(registry: Registry, runs: Runs) -> Iterator[tuple[str, str]]:
    """(path below docs, Markdown) of every guard's page and of the index."""
    yield "guards/index.md", index(registry)
    for guard in registry.guards.values():
        yield f"guards/{guard.id}.md", "\n".join(guard_page(registry, guard, runs)) + "\n"


def index(registry: Registry) -> str:
    """All guards by package, with their reasons."""
    lines = [
        "# Guards",
        "",
        f"{len(registry.guards)} places in the code that something depends on, with {len(registry.mutants)} mutants.",
        "Each page shows why the guard is there, where it came from, what happens without it, and which test says so.",
        "",
        *ground_truth(),
    ]
    by_package: dict[str, list[Guard]] = {}
    for guard in registry.guards.values():
        by_package.setdefault(package_of(registry, guard), []).append(guard)
    for package, guards in sorted(by_package.items()):
        lines += [f"## {package}", "", "| guard | why | origin |", "|---|---|---|"]
        lines += [f"| [{g.id}]({g.id}.md) | {cell(g.why)} | {cell(g.origin or '')} |" for g in guards]
        lines.append("")
    return "\n".join(lines) + "\n"


def ground_truth() -> list[str]:
    """What the record says of the runner's verdicts beside those of plain pytest."""
    if not TRUTH.exists():
        return []
    record = json.loads(TRUTH.read_text(encoding="utf-8"))
    differ = "none differed" if not record["different"] else f"{len(record['different'])} differed"
    told = f"For {record['compared']} of {record['mutants']} mutants of the Python lane the source was also patched on"
    more = f"disk and the same tests were run by plain pytest: of the verdicts {differ} (script:"
    return [told, more, "`tests/mutate/ground_truth.py`, record: `docs/evidence/mutation-ground-truth.json`).", ""]


def package_of(registry: Registry, guard: Guard) -> str:
    """Two folders, as in teachkv/kv."""
    return "/".join(Path(relative(registry.root, guard.path)).parent.parts[:2])


def guard_page(registry: Registry, guard: Guard, runs: Runs) -> Iterator[str]:
    mutants = [mutant for mutant in registry.mutants.values() if mutant.guard == guard.id]
    mutants.sort(key=lambda mutant: mutant.path != guard.path)  # those of the code that is shown come first
    yield from (f"# {guard.id}", "", f"**Why it is there.** {sentence(guard.why)}", "")
    if guard.origin:
        yield from (f"**Where it comes from.** {sentence(guard.origin)}", "")
    yield from (f"**Where it stands.** `{relative(registry.root, guard.path)}`, line {guard.line}.", "")
    yield from fenced(language(guard.path), guarded_code(registry, guard, mutants))
    for mutant in mutants:
        yield from mutant_part(registry, mutant, runs.get(mutant.id))
    yield from survivor_part(registry, guard)
    yield from ("## See for yourself", "")
    yield from fenced("bash", [f"pytest --mutate --mutate-only={guard.id}", f"pytest --mutate-show={mutants[0].id}"])


def guarded_code(registry: Registry, guard: Guard, mutants: list[Mutant]) -> list[str]:
    """The code around the guard: from a few lines before it to a few behind what its mutants change, cards left out."""
    lines = registry.file(guard.path).text.splitlines()
    spans = [registry.span(mutant) for mutant in mutants if mutant.path == guard.path]
    last = max([span.last for span in spans if span.first <= guard.block_end + 30], default=guard.block_end + 1)
    before, behind = (code_only(part) for part in (lines[: guard.line - 1], lines[guard.block_end : last + 12]))
    kept = last - guard.block_end + AROUND
    depth = min((indent(line) for line in before[-AROUND:] + behind[:1]), default=0)
    inside = next((i for i, line in enumerate(behind) if indent(line) < depth), len(behind))
    return dedent([*before[-AROUND:], *behind[: min(kept, inside)]])


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def code_only(lines: list[str]) -> list[str]:
    """Without comment lines and blank ones."""
    return [line for line in lines if line.strip() and not line.lstrip().startswith(("#", "//"))]


def mutant_part(registry: Registry, mutant: Mutant, run: dict[str, Any] | None) -> Iterator[str]:
    yield from (f"## {mutant.name} {{ #{mutant.name} }}", "")
    if mutant.words.decoy:
        yield from ("A *decoy*: written otherwise, meaning the same. No test may go red for it.", "")
    yield from fenced("diff", [line for line in list(diff_lines(registry, mutant))[2:] if not is_card(line)])
    if mutant.words.unpaired:
        yield from (f"No test here can kill it: {plain(mutant.words.unpaired)}.", "")
    if run is None:
        yield from ("Its run has not been captured (another lane judges it, or it is new).", "")
        return
    if run["of"] != digest(mutant):
        yield from ("The mutant has changed since its run was captured.", "")
        return
    yield from run_part(run)


def survivor_part(registry: Registry, guard: Guard) -> Iterator[str]:
    """Changes made by rule that no test can notice, each with its reason."""
    notes = [note for file in registry.files for note in file.notes if note.guard == guard.id]
    if notes:
        told = "`pytest --mutate --mutate-auto` also makes small changes by rule. These survive, each for a reason:"
        yield from ("## Survivors", "", told, "")
    for note in notes:
        yield from fenced("diff", [*(f"-{line}" for line in note.old), *(f"+{line}" for line in note.new)])
        yield from (sentence(note.why[:1].upper() + note.why[1:]), "")


def run_part(run: dict[str, Any]) -> Iterator[str]:
    """What was captured: the red test, what it said, and who else noticed."""
    if run["killer"]:
        said = [f"E   {line}" for line in run["text"].splitlines() if line.strip()]
        yield from ("Without the guard this test goes red:", "", f"`{run['killer']}`", "")
        yield from fenced("text", said or [f"E   {run['verdict']}"])
    else:
        yield from (
            f"Captured verdict: *{run['verdict']}*. " + plain("".join(run["explanation"].splitlines()[:1])),
            "",
        )
    others = [
        test for test, outcome in run["tests"].items() if outcome in ("assertion", "raise") and test != run["killer"]
    ]
    if others:
        yield from ("Also red:", "", *(f"- `{test}`" for test in others), "")
    yield from (f"Tests known to run the changed lines: {run['reached_by']}. Lane: {run['lane']}.", "")


def is_card(line: str) -> bool:
    return line[:1] == " " and line.strip().startswith(("#", "//"))


def fenced(kind: str, lines: list[str]) -> list[str]:
    return [f"````{kind}", *lines, "````", ""]


def language(path: Path) -> str:
    return "python" if path.suffix == ".py" else "cpp"


def dedent(lines: list[str]) -> list[str]:
    depth = min((indent(line) for line in lines if line.strip()), default=0)
    return [line[depth:] for line in lines]


def plain(text: str) -> str:
    """Text of a comment as Markdown that shows it as it is."""
    for mark in "\\*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text.rstrip(".")


def sentence(text: str) -> str:
    return f"{plain(text[:1].upper() + text[1:])}."


def cell(text: str) -> str:
    return plain(text).replace("\n", " ")


HOW = """# Exercises

An exercise gives you an incident, an import line and an empty test. Your test must pass on the real engine, accept a
rewrite that changes nothing, and go red by its own assertion when the guard is taken away.

    pytest --mutate --exercise            # the next one
    pytest --mutate --exercise-hint       # three hints each
    pytest --mutate --exercise-list       # how far you are

"""

ALONE = """## Without a catalogue

Every guard is an exercise. Take one from the list, cover the diff, and ask: which input shows that it is gone? Then

    pytest --mutate-with=GUARD/MUTANT path/to/your_test.py

must be red, and plain pytest green. [Your first mutant](../notebooks/14_your_first_mutant.ipynb) goes through one.
The [guards](../guards/index.md) with an origin are those that hurt somebody:

"""


def exercise_pages(registry: Registry, settings: Settings) -> Iterator[tuple[str, str]]:
    """The list of exercises and a page of each; hints are folded away, the mutants are named and not shown."""
    exercises = load_exercises(settings.exercises) if settings.exercises else []
    lines = [HOW]
    lines += [f"{number}. [{one.title}]({one.name}.md)" for number, one in enumerate(exercises, 1)]
    origins = [
        f"- [{g.id}](../guards/{g.id}.md): {plain(g.why)} ({plain(g.origin)})"
        for g in registry.guards.values()
        if g.origin
    ]
    yield "exercises/index.md", "\n".join([*lines, "", ALONE, *origins]) + "\n"
    for one in exercises:
        yield f"exercises/{one.name}.md", "\n".join(exercise_page(registry, one)) + "\n"


def exercise_page(registry: Registry, one: Exercise) -> Iterator[str]:
    guards = dict.fromkeys(registry.mutant(name).guard for name in one.mutants)
    kind = "Find the line: one guard is missing." if one.kind == "hunt" else "Write the test."
    yield from (f"# {one.title}", "", kind, "")
    yield from fenced("bash", [f"pytest --mutate --exercise {one.name}"])
    yield from fenced("python", (one.folder / "given.py").read_text(encoding="utf-8").splitlines())
    for number, hint in enumerate(one.hints, 1):
        yield from (f'??? tip "Hint {number}"', "", f"    {plain(hint)}", "")
    if one.kind != "hunt":
        yield from ('??? note "The guards it is about"', "", *(f"    - [{g}](../guards/{g}.md)" for g in guards), "")


def all_pages() -> Iterator[tuple[str, str]]:
    """Every generated page of guards and exercises. Raises MutateError for drifted cards."""
    settings = read_settings(ROOT)
    registry = Registry.load(settings)
    if registry.problems:
        raise MutateError("; ".join(problem.show(ROOT) for problem in registry.problems))
    yield from pages(registry, read_runs())
    yield from exercise_pages(registry, settings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("capture", "merge", "write"))
    parser.add_argument("arguments", nargs="*")
    args, more = parser.parse_known_args()
    if args.what == "capture":
        return capture([*args.arguments, *more])
    if args.what == "merge":
        merge(json.loads(Path(args.arguments[0]).read_text(encoding="utf-8")))
        return 0
    for name, text in all_pages():
        path = Path(args.arguments[0]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
