"""What stops a run: one line each and its exit code; verdicts that were finished are kept."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mutate.one_guard import CORE, KILLER, make


def test_a_red_suite_stops_before_the_first_mutant(project: Any) -> None:
    make(project, tests=KILLER + "\n    @pytest.mark.kills('g/m')\n    def test_red():\n        assert f(1) == 3\n")
    done = project.mutate()
    assert done.code == 1
    assert "red without a mutant, so nothing was run: 1 tests" in done.text
    assert done.report["results"] == []


def test_a_killer_that_needs_another_test_first_is_red_without_mutants(project: Any) -> None:
    """The baseline runs claimed killers alone, so that what leans on a neighbour is found before any mutant runs."""
    tests = KILLER.replace("def test_f():", "def test_f():\n        assert seen\n") + "\n"
    make(project, tests=tests.replace("@pytest", "seen = []\n    def test_a(): seen.append(1)\n\n    @pytest", 1))
    done = project.mutate()
    assert done.code == 1
    assert "tests/test_toy.py::test_f: AssertionError: assert []" in done.text


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["--mutate-only=nowhere"], 5, "no mutant selected"),
        (["--mutate-only=a b"], 4, "--mutate-only=a b"),
        (["--mutate-shard=3/2"], 4, "write i/n"),
        (["--mutate-lane=moon"], 4, "unknown lane 'moon'"),
        (["--mutate-report=xml"], 4, "unknown kind"),
        (["--mutate-report=json"], 4, "needs a path"),
        (["--mutate-jobs=0"], 4, "at least one child"),
        (["--mutate-list"], 4, "does not go with another mode"),
        (["-k", "nowhere"], 5, "1 deselected"),
    ],
)
def test_bad_input_is_one_line_and_its_code(project: Any, args: list[str], code: int, text: str) -> None:
    make(project)
    done = project.mutate(*args)
    assert done.code == code, done.text
    assert text in done.text


def test_an_option_without_mutate_is_refused(project: Any) -> None:
    make(project)
    done = project.pytest("--mutate-only=g")
    assert done.code == 4
    assert "--mutate-only needs --mutate" in done.text


@pytest.mark.parametrize(("old", "new"), [("    y = x + 1\n", "    y = x + 2\n"), ("+ y = x - 1", "+ y = (x + 1)")])
def test_drift_and_no_change_stop_the_run(project: Any, old: str, new: str) -> None:
    make(project)
    core = project.root / "toy/core.py"
    core.write_text(core.read_text().replace(old, new))
    done = project.mutate()
    assert done.code == 4
    assert "1 cards are wrong, nothing was run" in done.text
    assert done.report == {}


def test_ctrl_c_keeps_finished_verdicts_and_kills_the_children(project: Any) -> None:
    """The slower killer's mutant is the first of the two; the other says when it has begun, and never ends."""
    make(project, tests=KILLER.replace("assert", "import time; time.sleep(0.3)\n        assert"))
    begun = project.root / "begun"
    forever = f"open({str(begun)!r}, 'w').close(); import time; time.sleep(98)"
    slow = CORE.format(new=forever, words="").replace("def f", "def g").replace("[g", "[slow")
    project.write("toy/slow.py", slow)
    tests = KILLER.replace("core import f", "slow import g").replace("g/m", "slow/m").replace("f(", "g(")
    project.write("tests/test_slow.py", tests)
    started = project.start("--mutate", "--mutate-timeout-factor=1e6", "--mutate-jobs=1")
    deadline = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    children = children_of(started.pid)
    os.kill(started.pid, signal.SIGINT)
    text = started.communicate(timeout=20)[0]
    assert started.returncode == 2, text
    assert "g/m" in text
    assert "interrupted: the verdicts above are those that were finished" in text
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_platform_without_fork_starts_fresh_interpreters(project: Any) -> None:
    make(project)
    project.write("tests/conftest.py", "import os\ndel os.fork\n")
    done = project.mutate(fresh=True)
    assert done.code == 0, done.text
    assert "no forking: this platform cannot fork; each child was a fresh interpreter" in done.text
    done = project.mutate("--mutate-isolation=fork", fresh=True)
    assert done.code == 4
    assert "--mutate-isolation=fork: this platform cannot fork; use auto or spawn" in done.text
