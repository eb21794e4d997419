"""A throwaway package per test, run by a pytest of its own in its own folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
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

    def verdict(self, mutant: str) -> str:
        """The verdict that the terminal report gives for a mutant."""
        found = re.search(rf"^\s*{re.escape(mutant)}\s+(\S+)", self.text, re.MULTILINE)
        assert found, self.text
        return found.group(1)


class Project:
    """A folder with pyproject.toml, the package `toy` and tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("pyproject.toml", '[tool.teachkv-mutate]\npackages = ["toy"]\n')
        self.write("toy/__init__.py", "")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
        return path

    def pytest(self, *args: str, **env: str) -> Done:
        """Runs pytest here with the plugin, as a user would."""
        known = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "TEACHKV", "COV"))}
        path = os.pathsep.join([str(self.root), str(ROOT)])
        command = [sys.executable, "-m", "pytest", "-p", "teachkv.mutate.plugin", "-p", "no:cacheprovider", *args]
        done = subprocess.run(
            command, cwd=self.root, env={**known, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **env},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout + done.stderr)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project; `toy` holds the files the test writes."""
    return Project(tmp_path)


@pytest.fixture
def toy(project: Project) -> Project:
    """A guard with one mutant and its killer."""
    project.write("toy/core.py", TOY)
    project.write("tests/test_toy.py", TESTS)
    return project
