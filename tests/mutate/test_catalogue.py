"""The exercises that ship: each can be solved, each file as given is unsolved and kills nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate.exercise import HINTS, load_exercises
from teachkv.mutate.registry import Registry
from teachkv.mutate.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = Path(__file__).with_name("solutions")
EXERCISES = load_exercises(ROOT / "exercises")
SETTINGS = '[tool.teachkv-mutate]\npackages = ["teachkv", "cuda_kernels"]\nexercises = "exercises"\n'


@pytest.fixture
def school(project: Any) -> Any:
    """A folder of its own with the shipped exercises: what a student has written here stays untouched."""
    project.write("pyproject.toml", SETTINGS + '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n')
    (project.root / "exercises").mkdir()
    (project.root / "exercises/catalogue").symlink_to(ROOT / "exercises/catalogue")
    return project


def check_all(school: Any) -> dict[str, dict[str, Any]]:
    report = school.root / "r.json"
    done = school.pytest(
        "--mutate", "--exercise-check-all", f"--mutate-report=json:{report}", fresh=True, TEACHKV_MUTATE_RESTARTED=""
    )
    assert report.exists(), done.text
    return {attempt["exercise"]: attempt for attempt in json.loads(report.read_text())}


def test_there_are_enough_of_both_kinds_and_each_is_complete() -> None:
    kinds = [exercise.kind for exercise in EXERCISES]
    assert len(kinds) >= 16
    assert kinds.count("hunt") >= 3
    registry = Registry.load(read_settings(ROOT))
    for exercise in EXERCISES:
        assert len(exercise.hints) == HINTS
        assert exercise.incident
        assert bool(exercise.decoys) == (exercise.kind == "test")
        for name in (*exercise.mutants, *exercise.decoys):
            assert registry.mutant(name).words.decoy == (name in exercise.decoys)
        assert (SOLUTIONS / f"{exercise.name}.py").is_file()


def test_each_solution_solves_its_exercise(school: Any) -> None:
    for exercise in EXERCISES:
        shutil.copy(SOLUTIONS / f"{exercise.name}.py", school.root / "exercises")
    attempts = check_all(school)
    assert {name: attempt["lines"] for name, attempt in attempts.items() if not attempt["solved"]} == {}
    assert len(attempts) == len(EXERCISES)


def test_no_file_as_given_is_solved_or_red(school: Any) -> None:
    for exercise in EXERCISES:
        shutil.copy(exercise.folder / "given.py", school.root / "exercises" / f"{exercise.name}.py")
    for name, attempt in check_all(school).items():
        assert (name, attempt["solved"], attempt["code"]) == (name, False, 6), attempt["lines"]
        assert "killed" not in attempt["mutants"].values(), attempt["lines"]
