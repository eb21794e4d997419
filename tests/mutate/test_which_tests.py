"""Which tests take part in a run, and how a run is divided."""

from __future__ import annotations

from typing import Any

from tests.mutate.one_guard import KILLER, make


def test_only_the_claimed_killers_run_until_one_does_not_kill(project: Any) -> None:
    idle = "\n    def test_idle():\n        assert f(2) == 3\n"
    make(project, tests=KILLER + idle)
    done = project.mutate()
    assert (done.code, done.report["controls"]["baseline"]) == (0, 1), done.text
    make(project, tests=KILLER.replace("== 2", "> -9") + idle)
    done = project.mutate()
    assert (done.code, done.verdict("g/m"), done.report["controls"]["baseline"]) == (6, "killed", 2), done.text
    assert done.result("g/m")["killer"].endswith("test_idle")
    assert "test_f claims the kill but says: survived" in done.text


def test_tests_that_the_settings_leave_out_take_no_part(project: Any) -> None:
    settings = project.root / "pyproject.toml"
    text = settings.read_text().replace("[tool.pytest", 'without = "slow"\n[tool.pytest', 1)
    settings.write_text(text + 'markers = ["slow: minutes"]\n')
    make(project, tests=KILLER + "\n    @pytest.mark.slow\n    @pytest.mark.kills('g/m')\n    def test_r(): assert 0\n")
    done = project.mutate()
    assert (done.code, done.report["controls"]["baseline"]) == (0, 1), done.text
    assert project.mutate("-m", "slow").code == 1


def test_files_that_the_settings_ignore_are_not_imported_unless_named(project: Any) -> None:
    settings = project.root / "pyproject.toml"
    make(project)
    heavy = project.write("tests/test_heavy.py", "raise RuntimeError('imported')\n")
    settings.write_text(
        settings.read_text().replace("[tool.pytest", 'ignore = ["tests/test_heavy.py"]\n[tool.pytest', 1)
    )
    assert project.mutate().code == 0
    assert project.mutate("tests/test_heavy.py").code == 2
    heavy.unlink()
    done = project.mutate()
    assert (done.code, "ignore names 'tests/test_heavy.py', which is not there" in done.text) == (4, True), done.text


def test_shards_cover_everything_once_and_merge(project: Any) -> None:
    make(project)
    core = project.root / "toy/core.py"
    core.with_name("core.py.mutants").write_text("mutant[g/n]: decoy\n  - y = x + 1\n  + y = 1 + x\n")
    for part in ("1", "2"):
        done = project.mutate(f"--mutate-shard={part}/2")
        assert len(done.report["results"]) == 1
        (project.root / "report.json").rename(project.root / f"{part}.json")
    done = project.pytest("--mutate-merge=1.json", "--mutate-merge=2.json")
    assert done.code == 0, done.text
    assert "2 mutants of 1 guard: 1 killed, 1 survived (1 decoy); all cards hold" in done.text
    done = project.pytest("--mutate-merge=1.json", "--mutate-merge=1.json")
    assert done.code == 4
    assert "is in two of the merged reports" in done.text


def test_the_matrix_runs_every_test_that_reaches(project: Any) -> None:
    make(project, tests=KILLER + "\n    def test_also():\n        assert f(2) == 3\n\n    def test_not(): pass\n")
    done = project.mutate("--mutate-matrix")
    names = {nodeid.rpartition("::")[2]: outcome for nodeid, outcome in done.result("g/m")["tests"].items()}
    assert names == {"test_f": "assertion", "test_also": "assertion"}


SLOW_FIRST = """
    import pytest, time
    from toy.core import f

    def test_long():
        time.sleep(0.2)
        assert f(2) == 3

    def test_short():
        assert f(2) == 3

    @pytest.mark.kills("g/m")
    def test_weak():
        assert f(2) == 3
"""


def test_among_tests_that_reach_the_shortest_run_first(project: Any) -> None:
    make(project, tests=SLOW_FIRST)
    done = project.mutate("--mutate-auto")
    killers = {r["killer"].rpartition("::")[2] for r in done.report["results"] if r["automatic"]}
    assert killers <= {"test_short", "test_weak"}, done.text
    assert "test_short" in killers, done.text


def test_narrowed_tests_narrow_the_mutants(project: Any) -> None:
    make(project)
    project.write("tests/test_other.py", "def test_o(): pass\n")
    done = project.mutate("tests/test_other.py")
    assert done.code == 5
    done = project.mutate("tests/test_toy.py", "-n", "2")
    assert (done.code, done.verdict("g/m")) == (0, "killed")
