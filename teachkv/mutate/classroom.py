"""`pytest --mutate --exercise...`: one pending exercise at a time, hints, skipping, watching, checking all."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate import restart
from teachkv.mutate.called import as_called
from teachkv.mutate.errors import MutateError
from teachkv.mutate.exercise import HINTS, Exercise, Progress, find_exercise, load_exercises
from teachkv.mutate.options import EXERCISES, without_exercises
from teachkv.mutate.practice import Attempt, Practice
from teachkv.mutate.registry import Registry, relative
from teachkv.mutate.settings import read_settings
from teachkv.mutate.swap import RanBefore

POLL = 0.3  # seconds between looks at a watched file


class Classroom:
    """The exercises of a project and what the command line asks about them."""

    def __init__(self, config: pytest.Config) -> None:
        settings = read_settings(config.rootpath)
        self.exercises = load_exercises(settings.exercises)
        assert settings.exercises is not None
        self.progress = Progress.read(settings.exercises)
        self.option = config.option
        name = next(filter(None, (getattr(self.option, mode) for mode in EXERCISES)), "")
        self.attempts: list[Attempt] = []
        self.current = find_exercise(self.exercises, name, self.progress)

    def files(self) -> list[str]:
        """What pytest is to collect: the student's file, or all of them to check all."""
        if self.option.exercise_check_all:
            begun = [str(exercise.file) for exercise in self.exercises if exercise.file.exists()]
            if begun:
                return begun
        shown = self.current or self.exercises[0]
        shown.begin()
        return [str(shown.file)]

    def run(self, session: pytest.Session, registry: Registry, ran: RanBefore) -> tuple[int, list[str]]:
        """The exit code and the lines to print."""
        if self.option.exercise_list:
            return 0, [*map(self._entry, self.exercises), self.progress.bar(self.exercises)]
        if self.option.exercise_check_all:
            return self._check_all(session, registry, ran)
        if self.current is None:
            return 0, ["all exercises are done or skipped", self.progress.bar(self.exercises)]
        if self.option.exercise_hint is not None:
            return 0, self._hint(self.current)
        if self.option.exercise_skip is not None:
            self.progress.skip(self.current.name)
            return 0, [f"skipped {self.current.name}", *self._next()]
        if self.option.exercise_reset is not None:
            self.current.reset()
            return 0, [f"{self.current.file} is as it was given; your text is in {self.current.file.stem}.old"]
        if self.option.exercise_watch is not None:
            return self._watch(session.config, self.current), self._next()
        if session.testsfailed:
            raise session.Interrupted(f"{self.current.file.name} cannot be imported")
        return self._attempt(session, registry, ran, self.current)

    def _attempt(
        self, session: pytest.Session, registry: Registry, ran: RanBefore, exercise: Exercise
    ) -> tuple[int, list[str]]:
        attempt = Practice(session, registry, ran, exercise).run()
        self._report([attempt])
        number = self.exercises.index(exercise) + 1
        lines = ["", f"exercise {number} of {len(self.exercises)}: {exercise.title}", ""]
        if exercise.untouched and exercise.incident:
            lines += [*exercise.incident.splitlines(), ""]
        lines += attempt.lines
        if attempt.solved:
            self.progress.finish(exercise.name, attempt.points)
            return 0, [*lines, f"solved, {attempt.points} points", *self._next()]
        place = relative(session.config.rootpath, exercise.file)
        lines += ["", f"Edit {place}, then run this again:  {as_called('--mutate', '--exercise')}"]
        return attempt.code, [*lines, f"A hint:  {as_called('--mutate', '--exercise-hint')}"]

    def _check_all(self, session: pytest.Session, registry: Registry, ran: RanBefore) -> tuple[int, list[str]]:
        attempts: list[Attempt] = []
        for exercise in [exercise for exercise in self.exercises if exercise.file.exists()]:
            attempts.append(Practice(session, registry, ran, exercise).run())
            if attempts[-1].solved:
                self.progress.finish(exercise.name, attempts[-1].points)
            else:
                self.progress.done.pop(exercise.name, None)
                self.progress.write()
        self._report(attempts)
        lines = [f"{a.exercise:<40} {'solved' if a.solved else 'open':<8} {a.points} of {a.of}" for a in attempts]
        return max(attempt.code for attempt in attempts), [*lines, self.progress.bar(self.exercises)]

    def _report(self, attempts: list[Attempt]) -> None:
        """`--mutate-report=json:PATH`: the verdicts for a teacher."""
        self.attempts = attempts
        for kind in self.option.mutate_report:
            name, _, path = kind.partition(":")
            if name != "json":
                raise MutateError(f"--mutate-report={kind}: exercises are reported as json:PATH only")
            data: list[dict[str, Any]] = [attempt.to_data() for attempt in attempts]
            Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    def _entry(self, exercise: Exercise) -> str:
        state = "done" if exercise.name in self.progress.done else "pending"
        state = "skipped" if exercise.name in self.progress.skipped else state
        return f"{exercise.name:<40} {state:<8} {exercise.title}"

    def _hint(self, exercise: Exercise) -> list[str]:
        number = min(self.progress.hints.get(exercise.name, 0) + 1, HINTS)
        self.progress.hints[exercise.name] = number
        self.progress.write()
        return [f"{exercise.name}, hint {number} of {HINTS}: {exercise.hints[number - 1]}"]

    def _next(self) -> list[str]:
        following = find_exercise(self.exercises, "", self.progress)
        bar = self.progress.bar(self.exercises)
        return [bar, f"next: {following.name}, {following.title}" if following else "that was the last one"]

    def _watch(self, config: pytest.Config, exercise: Exercise) -> int:
        """Runs the exercise anew at each change of the file until it is solved or Ctrl-C."""
        args = [*without_exercises(config.invocation_params.args, self.option), f"--exercise={exercise.name}"]
        with tempfile.TemporaryDirectory(prefix="mutate-watch-") as name:
            spec = Path(name) / "spec.json"
            restart.write_spec(spec, {})
            seen = -1.0
            while True:
                changed = os.stat(exercise.file).st_mtime
                if changed == seen:
                    time.sleep(POLL)
                    continue
                seen = changed
                code = subprocess.run(
                    [*restart.interpreter(), str(restart.BOOT), str(spec), *args], check=False
                ).returncode
                if code == 0:
                    self.progress = Progress.read(self.progress.path.parent)
                    return 0
