"""The list of exercises and a page of each, from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from teachkv.mutate.exercise import Exercise, load_exercises
from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import Settings
from tools.markdown import fenced, plain

HOW = """# Exercises

An exercise gives you an incident, an import line and an empty test. Your test must pass on the real engine, accept a
rewrite that changes nothing, and go red by its own assertion when the guard is taken away.

    .venv/bin/pytest --mutate --exercise            # the next one
    .venv/bin/pytest --mutate --exercise-hint       # three hints each
    .venv/bin/pytest --mutate --exercise-list       # how far you are

"""

ALONE = """## Without a catalogue

Every guard is an exercise. Take one from the list, cover the diff, and ask: which input shows that it is gone? Then

    .venv/bin/pytest --mutate-with=GUARD/MUTANT path/to/your_test.py

must be red, and plain pytest green. [Your first mutant](../notebooks/14_your_first_mutant.ipynb) goes through one.
The [guards](../guards/index.md) with an origin are those that hurt somebody:

"""


def pages(registry: Registry, settings: Settings) -> Iterator[tuple[str, str]]:
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
    yield from fenced("bash", [f".venv/bin/pytest --mutate --exercise {one.name}"])
    yield from fenced("python", (one.folder / "given.py").read_text(encoding="utf-8").splitlines())
    for number, hint in enumerate(one.hints, 1):
        yield from (f'??? tip "Hint {number}"', "", f"    {plain(hint)}", "")
    if one.kind != "hunt":
        yield from ('??? note "The guards it is about"', "", *(f"    - [{g}](../guards/{g}.md)" for g in guards), "")
