"""Printed commands are those the user typed, with other options."""

import sys
from pathlib import Path

import pytest

from teachkv.mutate.called import as_called


@pytest.mark.parametrize(
    ("began", "path", "typed"),
    [
        ("{here}/.venv/bin/pytest", "", ".venv/bin/pytest"),
        (".venv/bin/pytest", "", ".venv/bin/pytest"),
        ("{here}/.venv/bin/pytest", "{here}/.venv/bin", "pytest"),
        ("{above}/env/bin/pytest", "", "{above}/env/bin/pytest"),
        ("{here}/site/pytest/__main__.py", "", ".venv/bin/python -m pytest"),
        ("{here}/a folder/pytest", "", "'a folder/pytest'"),
        ("runner.py", "", "pytest"),
    ],
)
def test_a_command_is_printed_as_it_was_called(
    began: str, path: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / ".venv/bin").mkdir(parents=True)
    (here / ".venv/bin/pytest").touch(0o755)
    monkeypatch.chdir(here)
    names = {"here": here, "above": tmp_path}
    monkeypatch.setattr(sys, "argv", [began.format(**names)])
    monkeypatch.setattr(sys, "executable", str(here / ".venv/bin/python"))
    monkeypatch.setenv("PATH", path.format(**names))
    assert as_called("--mutate", "--exercise") == f"{typed.format(**names)} --mutate --exercise"
