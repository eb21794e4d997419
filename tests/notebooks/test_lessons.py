"""The lessons as text: every guard that they take away exists, and every lesson has its six parts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "notebooks"))

import lesson

ROOT = Path(__file__).resolve().parent.parent.parent

SOURCES = sorted((ROOT / "notebooks" / "src").glob("*.py"))
MUTANT = re.compile(r'"([a-z][a-z0-9-]*/[a-z0-9-]+)"')


def mutants_of(source: Path) -> set[str]:
    text = source.read_text(encoding="utf-8")
    used = re.findall(r"(?:card|without|red_run)\((.*)", text)
    return {name for line in used for name in MUTANT.findall(line)}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_lesson_has_its_six_parts(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert "**The question.**" in text
    places = [
        text.find(part)
        for part in ("# ## See it happen", "# ## Take the guard away", "# ## Exercise", "# ## What you know now")
    ]
    assert -1 not in places
    assert places == sorted(places)
    assert re.search(r"# ## (A|The) guard", text)
    exercise = text[places[2] : places[3]]
    assert len(re.findall(r"^#     \.venv/bin/pytest ", exercise, re.MULTILINE)) >= 1, "one command"
    assert "assert " in text[places[3] :]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_mutants_of_a_lesson_exist_and_have_killers(source: Path) -> None:
    registry = lesson.registry()
    for name in mutants_of(source):
        assert name in registry.mutants, name
        assert lesson.killers(name), name


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_exercises_select_something(source: Path) -> None:
    known = lesson.registry().mutants
    for quoted, bare in re.findall(r"--mutate-only=(?:\"([^\"]+)\"|(\S+))", source.read_text(encoding="utf-8")):
        for word in re.split(r" or | and ", quoted or bare):
            assert any(word in name for name in known), word


def test_lessons_and_their_notebooks_go_together() -> None:
    built = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert built == {path.stem for path in SOURCES}


def two_and_two() -> int:
    from teachkv.masks import NoMask

    return 4 if NoMask else 5


def never_imports() -> int:
    return 1


def fails() -> int:
    import teachkv.masks

    raise ValueError(teachkv.masks.__name__)


def test_a_child_runs_under_the_mutant_or_says_that_it_did_not() -> None:
    assert lesson.without("masker/none-at-one-query", two_and_two) == 4
    with pytest.raises(RuntimeError, match="never imported"):
        lesson.without("masker/none-at-one-query", never_imports)
    with pytest.raises(RuntimeError, match=r"ValueError: teachkv\.masks"):
        lesson.without("masker/none-at-one-query", fails)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_card_shows_no_line_numbers(source: Path) -> None:
    """They move with every edit of the file above them, and the saved lesson would be stale."""
    for name in mutants_of(source):
        lines = lesson.changed_lines(name)
        assert lines[0].startswith("--- a/")
        assert not any(line.startswith("@@") for line in lines)


def test_the_failing_line_stands_above_what_is_said_of_it() -> None:
    said = "t.py:3: in test_a\n    assert pad == 4\n           ^^^^^^^^\nE   AssertionError\nE   more\n"
    assert lesson.failing_line(said) == ["assert pad == 4"]
    assert lesson.failing_line("no tests ran") == []


def run_lesson(source: str) -> list[object]:
    """Run all cells of a lesson; [what was raised, how many cells were left], or [None, 0]."""
    import json
    import linecache
    import re
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    import lesson

    import teachkv.mutate.decide  # noqa: F401

    # A lesson about pytest starts some: the mutant must be in force there as well.
    spec = sys.modules["_teachkv_mutate_overlay"].SPEC
    kept = Path(tempfile.mkdtemp()) / "spec.json"
    kept.write_text(json.dumps({"texts": spec["texts"], "sys_path": ["", *sys.path]}), encoding="utf-8")
    plainly = subprocess.run

    def under_mutant(command, **options):  # type: ignore[no-untyped-def]
        if command[1:3] == ["-m", "pytest"]:
            command = [command[0], spec["boot"], str(kept), *command[3:]]
        return plainly(command, **options)

    subprocess.run = under_mutant
    lesson.red_run = lambda *_: ""  # type: ignore[assignment]
    lesson.card = lambda *_: None
    text = Path(source).read_text(encoding="utf-8")
    pieces = re.split(r"^# %%(?: tags=.*)?", text, flags=re.MULTILINE)[1:]
    cells = [cell for cell in pieces if not cell.startswith(" [markdown]")]
    names: dict[str, object] = {"__name__": "lesson"}
    for number, cell in enumerate(cells):
        code, name = cell.partition("\n")[2], f"<cell {number}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        try:
            exec(compile(code, name, "exec"), names)
        except Exception as error:
            return [type(error).__name__, len(cells) - number - 1]
    return [None, 0]


TAKEN_AWAY = {
    "01_one_token_by_hand": "same-angle/queries-twice",
    "02_the_kv_cache": "geometry/stores-live-length",
    "03_one_bucket_per_step": "key/decode-not-pinned",
    "04_ragged_decode": "masker/none-at-one-query",
    "05_two_doors": "masker-window/drops-lead-pad",
    "06_all_or_nothing": "all-or-nothing/pads-before-asking",
    "07_poisoned_prefix_cache": "reader-strip/removed",
    "08_thread_by_thread": "numba-dead-prefix/off-by-one",
    "09_from_naive_to_fast": "numba-merge/unscaled",
    "10_starvation": "overdue/removed",
    "11_the_flag_nobody_read": "window-flag/removed",
    "12_bit_for_bit": "position-blocks/columns",
    "13_measuring_honestly": "completeness/not-checked",
    "14_your_first_mutant": "claim-checked/removed",
}


def test_every_lesson_names_the_mutant_that_fails_it() -> None:
    assert set(TAKEN_AWAY) == {source.stem for source in SOURCES}
    assert all(mutant in lesson.registry().mutants for mutant in TAKEN_AWAY.values())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mutant"), TAKEN_AWAY.items(), ids=TAKEN_AWAY)
def test_without_its_guard_a_lesson_fails_in_its_last_cell(name: str, mutant: str) -> None:
    source = str(ROOT / "notebooks" / "src" / f"{name}.py")
    assert lesson.without(mutant, run_lesson, source) == ["AssertionError", 0]
