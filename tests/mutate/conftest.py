"""A throwaway package per test, run by a pytest of its own in its own folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.mutate.nested import run_nested

collect_ignore = ["foreign"]
ROOT = Path(__file__).resolve().parents[2]
# These packages load no NumPy, so the restart would only take time, as would other plugins.
QUICK = {"TEACHKV_MUTATE_RESTARTED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
STRICT = '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\naddopts = "--strict-markers"\n'
TOY = """
    def clamp(x: int) -> int:
        # guard[floor]: a negative count must never leave here
        # mutant[floor/removed]:
        #   - if x < 0:
        #   -     return 0
        #   + pass
        if x < 0:
            return 0
        return x
"""
TESTS = """
    import pytest
    from toy.core import clamp

    @pytest.mark.kills("floor/removed")
    def test_floor():
        assert clamp(-1) == 0

    def test_keeps():
        assert clamp(3) == 3
"""


@dataclass
class Done:
    """What a pytest run left: exit code, both streams as one text."""

    code: int
    text: str

    report: dict[str, Any] = field(default_factory=dict)
    root: Path = Path()

    def result(self, mutant: str) -> dict[str, Any]:
        """The JSON report's entry of a mutant."""
        assert "results" in self.report, self.text[-150:]
        found = [result for result in self.report["results"] if result["id"] == mutant]
        assert len(found) == 1, self.text
        return dict(found[0])

    def verdict(self, mutant: str) -> str:
        return str(self.result(mutant)["verdict"])


class Project:
    """A folder with pyproject.toml, the package `toy` and tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("pyproject.toml", '[tool.teachkv-mutate]\npackages = ["toy"]\n' + STRICT)
        self.write("toy/__init__.py", "")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
        return path

    def _command(self, *args: str, **env: str) -> tuple[list[str], dict[str, str]]:
        known = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "TEACHKV", "COV"))}
        path = os.pathsep.join([str(self.root), str(ROOT)])
        return ["-p", "teachkv.mutate.plugin", "-p", "no:cacheprovider", *args], {
            **known, **QUICK, "PYTHONPATH": path, **env
        }  # fmt: skip

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """Starts pytest here in an interpreter of its own, as a user would."""
        arguments, environment = self._command(*args, **env)
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def pytest(self, *args: str, fresh: bool = False, **env: str) -> Done:
        """Runs pytest here to its end; `fresh` in an interpreter of its own."""
        if not fresh:
            arguments, environment = self._command(*args, **env)
            return Done(*run_nested(self.root, arguments, environment, timeout=180))
        with self.start(*args, **env) as process:
            text = process.communicate(timeout=180)[0]
        return Done(process.returncode, text)

    def mutate(self, *args: str, fresh: bool = False, **env: str) -> Done:
        """Runs `pytest --mutate` here and reads its JSON report, if it wrote one."""
        path = self.root / "report.json"
        done = self.pytest(
            "--mutate", "--mutate-report=term-missing", f"--mutate-report=json:{path}", *args, fresh=fresh, **env
        )
        done.report = json.loads(path.read_text()) if path.exists() else {}
        return done


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project; `toy` holds the files the test writes."""
    return Project(tmp_path)


@pytest.fixture(scope="session")
def toy_files() -> dict[str, str]:
    """The files of `toy`, for fixtures of a wider scope."""
    return {"toy/core.py": TOY, "tests/test_toy.py": TESTS}


@pytest.fixture
def toy(project: Project) -> Project:
    """A guard with one mutant and its killer."""
    project.write("toy/core.py", TOY)
    project.write("tests/test_toy.py", TESTS)
    return project


@pytest.fixture(scope="session")
def project_type() -> type[Project]:
    """For fixtures of a wider scope than `project`."""
    return Project
