"""Guard pages show what the cards and the captured runs say, and nothing that has gone stale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import read_settings
from teachkv.mutate.survivors import Note
from tools import exercise_pages, guard_pages, red_runs

NAME = "prefix-strip/removed"


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.load(read_settings(guard_pages.ROOT))


def run(registry: Registry, **changes: object) -> red_runs.Runs:
    found = {
        "verdict": "killed",
        "lane": "python",
        "killer": "tests/a.py::test_first",
        "text": "AssertionError: 64 == 60\nmore",
        "reached_by": 3,
        "explanation": "",
        "tests": {
            "tests/a.py::test_first": "assertion",
            "tests/a.py::test_second": "raise",
            "tests/a.py::test_no": "passed",
        },
        "of": red_runs.digest(registry.mutants[NAME]),
    }
    return {NAME: {**found, **changes}}


def page(registry: Registry, runs: red_runs.Runs) -> str:
    return "\n".join(guard_pages.guard_page(registry, registry.guards["prefix-strip"], runs))


def test_a_page_shows_origin_code_diff_red_run_and_cover(registry: Registry) -> None:
    text = page(registry, run(registry))
    assert "The seed document" in text
    assert "\nrows = require\\_live" not in text
    assert "rows = require_live(read_rows(), coverage)" in text
    assert "-rows = require_live(read_rows(), coverage)\n+rows = read_rows()" in text
    assert (
        "Without the guard `test_first` goes red (in `tests/a.py`):\n\n````text\nE   AssertionError: 64 == 60\nE   more"
        in text
    )
    assert "- `tests/a.py::test_second`" in text
    assert "test_no" not in text
    assert "Tests known to run the changed lines: 3." in text


def test_a_survivor_is_told_with_its_reason(registry: Registry) -> None:
    guard = registry.guards["prefix-strip"]
    file = registry.file(guard.path)
    note = Note(guard.id, "the last block is whole", ("if a < b:",), ("if a <= b:",), file.path, file.path, 1)
    told = Registry(registry.root, [replace(one, notes=[note] if one is file else []) for one in registry.files])
    text = page(told, {})
    assert "## Survivors" in text
    assert "````diff\n-if a < b:\n+if a <= b:\n````\n\nThe last block is whole." in text


def test_a_run_of_another_mutant_text_is_not_shown(registry: Registry) -> None:
    text = page(registry, run(registry, of="0" * 12))
    assert "has changed since its run was captured" in text
    assert "E   " not in text


def test_cards_do_not_stand_in_the_code(registry: Registry) -> None:
    text = page(registry, {})
    assert "mutant[" not in text
    assert "guard[" not in text
    assert text.count("has not been captured") == len(
        [m for m in registry.mutants.values() if m.guard == "prefix-strip"]
    )


def test_the_index_tells_how_the_runner_was_checked(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "truth.json"
    monkeypatch.setattr(guard_pages, "TRUTH", record)
    assert "patched" not in guard_pages.index(registry)
    record.write_text(json.dumps({"compared": 3, "mutants": 4, "different": ["a/b: the plugin says ..."]}))
    text = guard_pages.index(registry)
    assert "For 3 of 4 mutants the source was also" in text
    assert "of the verdicts 1 differed" in text


def test_every_guard_has_a_page_and_is_listed(registry: Registry) -> None:
    pages = dict(guard_pages.pages(registry, red_runs.read_runs()))
    for guard in registry.guards:
        assert f"]({guard}.md)" in pages["guards/index.md"]
        assert pages[f"guards/{guard}.md"].startswith(f"# {guard}\n")


def test_a_command_names_the_lane_its_mutants_run_in(registry: Registry) -> None:
    runs = red_runs.read_runs()

    def command(guard: str) -> str:
        page = "\n".join(guard_pages.guard_page(registry, registry.guards[guard], runs))
        return next(line for line in page.splitlines() if f"--mutate-only={guard}" in line)

    assert command("prefix-strip").endswith("--mutate-only=prefix-strip")
    assert command("lanes-agree").endswith("--mutate-only=lanes-agree --mutate-lane=host")
    assert command("sync-chunks").endswith(" --mutate-lane=tsan")


def test_most_python_mutants_have_a_captured_run(registry: Registry) -> None:
    """A page without its red run is a promise; this bounds how many there may be."""
    runs = red_runs.read_runs()
    python = [m for m in registry.mutants.values() if m.path.suffix == ".py" and not m.words.unpaired]
    fresh = [m.id for m in python if m.id in runs and runs[m.id]["of"] == red_runs.digest(m)]
    assert len(fresh) >= 0.9 * len(python)


def test_an_exercise_hides_its_hints(registry: Registry) -> None:
    pages = dict(exercise_pages.pages(registry, read_settings(guard_pages.ROOT)))
    first = pages["exercises/ex01_poisoned_prefix.md"]
    assert first.count('??? tip "Hint') == 3
    assert ".venv/bin/pytest --mutate --exercise ex01_poisoned_prefix" in first
    assert all(f"]({name.partition('/')[2]})" in pages["exercises/index.md"] for name in pages if "index" not in name)
