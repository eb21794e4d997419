"""Guard pages, from the cards in the code and the red runs that were captured (tools/red_runs.py).

Reason, origin, code and diffs are read from the code as it is. The site makes the pages as it is built.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from teachkv.mutate.cards import Guard, Mutant
from teachkv.mutate.errors import MutateError
from teachkv.mutate.listing import diff_lines
from teachkv.mutate.registry import Registry, relative
from teachkv.mutate.settings import read_settings
from tools.markdown import cell, fenced, origin, plain, sentence, sentence_origin
from tools.red_runs import Runs, digest

ROOT = Path(__file__).resolve().parent.parent
TRUTH = ROOT / "docs" / "evidence" / "mutation-ground-truth.json"
PYTEST = ".venv/bin/pytest"  # where no environment is active this one is found
AROUND = 3  # lines of code shown on either side of a guard


def load() -> Registry:
    """The cards of the code as it is. Raises MutateError for drifted ones."""
    registry = Registry.load(read_settings(ROOT))
    if registry.problems:
        raise MutateError("; ".join(problem.show(ROOT) for problem in registry.problems))
    return registry


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
        lines += [f"| [{g.id}]({g.id}.md) | {cell(g.why)} | {origin(g.origin or '')} |" for g in guards]
        lines.append("")
    return "\n".join(lines) + "\n"


def ground_truth() -> list[str]:
    """What the record says of the runner's verdicts beside those of plain pytest."""
    if not TRUTH.exists():
        return []
    record = json.loads(TRUTH.read_text(encoding="utf-8"))
    differ = "none differed" if not record["different"] else f"{len(record['different'])} differed"
    told = f"For {record['compared']} of {record['mutants']} mutants the source was also"
    more = f"patched on disk and the same tests were run by plain pytest: of the verdicts {differ} (script:"
    return [told, more, "`tests/mutate/ground_truth.py`, record: `docs/evidence/mutation-ground-truth.json`).", ""]


def package_of(registry: Registry, guard: Guard) -> str:
    """Two folders, as in teachkv/kv."""
    return "/".join(Path(relative(registry.root, guard.path)).parent.parts[:2])


def guard_page(registry: Registry, guard: Guard, runs: Runs) -> Iterator[str]:
    mutants = [mutant for mutant in registry.mutants.values() if mutant.guard == guard.id]
    mutants.sort(key=lambda mutant: mutant.path != guard.path)  # those of the code that is shown come first
    yield from (f"# {guard.id}", "", f"**Why it is there.** {sentence(guard.why)}", "")
    where = sentence_origin(guard.origin) if guard.origin else "No outside origin is named"
    yield from (f"**Where it comes from.** {where}.", "")
    yield from (f"**Where it stands.** `{relative(registry.root, guard.path)}`, line {guard.line}.", "")
    yield from fenced(language(guard.path), guarded_code(registry, guard, mutants))
    for mutant in mutants:
        yield from mutant_part(registry, mutant, runs.get(mutant.id))
    yield from survivor_part(registry, guard)
    yield from ("## See for yourself", "")
    run = f"{PYTEST} --mutate --mutate-only={guard.id}{lane_option(mutants, runs)}"
    yield from fenced("bash", [run, f"{PYTEST} --mutate-show={mutants[0].id}"])


def lane_option(mutants: list[Mutant], runs: Runs) -> str:
    """The option that a run needs to find the mutants; without it there are those of the Python lane alone."""
    lanes = sorted({runs[mutant.id]["lane"] for mutant in mutants if mutant.id in runs})
    return "" if lanes in ([], ["python"]) else f" --mutate-lane={','.join(lanes)}"


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
    kind = "Decoy" if mutant.words.decoy else "Mutant"
    yield from (f"## {kind}: {mutant.name} {{ #{mutant.name} }}", "")
    if mutant.words.decoy:
        yield from ("A *decoy*: written otherwise, meaning the same. No test may go red for it.", "")
    yield from fenced("diff", shifted([line for line in list(diff_lines(registry, mutant))[2:] if not is_card(line)]))
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
        file, _, test = run["killer"].partition("::")
        said = [f"E   {line}" for line in run["text"].splitlines() if line.strip()]
        yield from (f"Without the guard `{test}` goes red (in `{file}`):", "")
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


def shifted(diff: list[str]) -> list[str]:
    """A diff without the indentation that all its lines share: a phone shows forty letters."""
    code = [line[1:] for line in diff if line[:1] in "+- " and line[1:].strip()]
    depth = min(map(indent, code), default=0)
    return [line if line.startswith("@@") else line[:1] + line[1 + depth :] for line in diff]


def language(path: Path) -> str:
    return "python" if path.suffix == ".py" else "cpp"


def dedent(lines: list[str]) -> list[str]:
    depth = min((indent(line) for line in lines if line.strip()), default=0)
    return [line[depth:] for line in lines]
