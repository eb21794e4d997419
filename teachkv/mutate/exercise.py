"""Exercises: what one is made of, where it lies, and how far a student has come.

`<folder>/catalogue/exNN_name/` holds `exercise.toml` and `given.py` (the incident, an import line, a test that kills
nothing). Solutions lie elsewhere, out of sight. The student writes in `<folder>/exNN_name.py`, made from `given.py`
when the exercise is first met.
Progress is kept in `<folder>/.progress.json`.

    title = "The poisoned prefix cache"
    kind = "test"                       # or "hunt": one mutant, and ANSWER = ("file", line) in place of a test
    mutants = ["prefix-strip/removed"]  # each must be killed by an assertion in the student's file
    decoys = ["prefix-strip/spelled"]   # each must survive
    hints = ["first", "second", "third"]
    points = { "prefix-strip/removed" = 2 }   # optional; 1 each
"""

from __future__ import annotations

import ast
import json
import shutil
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from teachkv.mutate.errors import MutateError

_KEYS = {"title", "kind", "mutants", "decoys", "hints", "points"}
HINTS = 3


@dataclass(frozen=True)
class Exercise:
    """One exercise. `file` is the student's, `folder` the catalogue's."""

    name: str
    file: Path
    folder: Path
    title: str
    kind: str
    mutants: tuple[str, ...]
    hints: tuple[str, ...]
    decoys: tuple[str, ...] = ()
    points: dict[str, int] = field(default_factory=dict)

    def worth(self, mutant: str) -> int:
        return self.points.get(mutant, 1)

    @property
    def untouched(self) -> bool:
        """Whether the student's file is as it was given."""
        return self.file.read_bytes() == (self.folder / "given.py").read_bytes()

    @property
    def incident(self) -> str:
        """What happened and what is to be done: the docstring of the given file, less its title."""
        text = ast.get_docstring(ast.parse((self.folder / "given.py").read_text(encoding="utf-8"))) or ""
        return text.partition("\n\n")[2]

    def begin(self) -> None:
        """Makes the student's file, unless it is there."""
        if not self.file.exists():
            self.reset()

    def reset(self) -> None:
        """Makes the student's file anew; what stood there is kept beside it as `.old`."""
        if self.file.exists():
            shutil.copy(self.file, self.file.with_suffix(".old"))
        shutil.copy(self.folder / "given.py", self.file)


def load_exercises(folder: Path | None) -> list[Exercise]:
    """All exercises in order. Raises MutateError for a missing folder or a wrong exercise.toml."""
    if folder is None or not (folder / "catalogue").is_dir():
        raise MutateError("no exercises here; set [tool.teachkv-mutate] exercises to the folder of their catalogue")
    return [_load(folder, path) for path in sorted((folder / "catalogue").iterdir()) if path.is_dir()]


def _load(folder: Path, path: Path) -> Exercise:
    file = path / "exercise.toml"
    try:
        table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise MutateError(f"{file}: {error}") from error
    kind = table.setdefault("kind", "test")
    wrong = sorted(set(table) - _KEYS) or [key for key in ("title", "mutants", "hints") if not table.get(key)]
    if wrong or kind not in ("test", "hunt") or len(table["hints"]) != HINTS:
        what = f"wrong or missing '{wrong[0]}'" if wrong else f"needs {HINTS} hints and kind test or hunt"
        raise MutateError(f"{file}: {what}")
    if kind == "hunt" and (len(table["mutants"]) != 1 or table.get("decoys")):
        raise MutateError(f"{file}: a hunt has one mutant and no decoy")
    lists = {key: tuple(table[key]) for key in ("mutants", "decoys", "hints") if key in table}
    return Exercise(
        path.name, folder / f"{path.name}.py", path, table["title"], kind, points=table.get("points", {}), **lists
    )


def find_exercise(exercises: list[Exercise], name: str, progress: Progress) -> Exercise | None:
    """The exercise of that name or number; without a name the first pending one (None: all are done)."""
    if not name:
        return next((exercise for exercise in exercises if not progress.settled(exercise.name)), None)
    found = [exercise for exercise in exercises if name in (exercise.name, exercise.name.partition("_")[0])]
    if not found:
        raise MutateError(f"unknown exercise '{name}'; see --exercise-list")
    return found[0]


@dataclass
class Progress:
    """`done` maps an exercise to the points it gave; `hints` to how many were read."""

    path: Path
    done: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    hints: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Progress:
        path = folder / ".progress.json"
        try:
            return cls(path, **(json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}))
        except (ValueError, TypeError) as error:
            raise MutateError(f"{path}: unreadable progress ({error}); mend or delete it") from error

    def write(self) -> None:
        data = {key: value for key, value in asdict(self).items() if key != "path"}
        self.path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    def settled(self, name: str) -> bool:
        return name in self.done or name in self.skipped

    def finish(self, name: str, points: int) -> None:
        self.done[name] = points
        self.skipped = [other for other in self.skipped if other != name]
        self.write()

    def skip(self, name: str) -> None:
        if name not in self.done and name not in self.skipped:
            self.skipped.append(name)
            self.write()

    def bar(self, exercises: list[Exercise]) -> str:
        """`[####------] 4/10 done, 1 skipped, 6 points`."""
        count = sum(exercise.name in self.done for exercise in exercises)
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        full = "#" * count + "-" * (len(exercises) - count)
        return f"[{full}] {count}/{len(exercises)} done{skipped}, {sum(self.done.values())} points"
