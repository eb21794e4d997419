"""Each verdict and exit code, each from a package of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate.judge import TestOutcome
from teachkv.mutate.pool import Pool
from teachkv.mutate.task import Answer, Task, send
from teachkv.mutate.verdicts import Controls, MutantResult, Verdict, exit_code

CORE = """
    import os, sys

    def f(x):
        # guard[g]: why
        # mutant[g/m]:{words}
        #   - y = x + 1
        #   + {new}
        y = x + 1
        return y
"""
KILLER = """
    import pytest
    from toy.core import f

    @pytest.mark.kills("g/m")
    def test_f():
        assert f(1) == 2
"""


def make(project: Any, new: str = "y = x - 1", words: str = "", tests: str = KILLER) -> None:
    project.write("toy/core.py", CORE.format(new=new, words=words))
    project.write("tests/test_toy.py", tests)


def test_a_killed_mutant_names_its_killer_and_all_holds(project: Any) -> None:
    make(project)
    done = project.mutate()
    assert done.code == 0, done.text
    result = done.result("g/m")
    assert (result["verdict"], result["how"], result["killer"]) == ("killed", "hot", "tests/test_toy.py::test_f")
    assert result["text"] == "AssertionError: assert 0 == 2"
    assert "controls held: baseline twice, 1 tests; no-op survived 1 times; canary killed (hot)" in done.text
    assert "1 killed in" in done.text.strip().splitlines()[-1]


BEHAVIOURS = {
    "y = x.z": "killed(raise)",
    "y = x - -1": "survived",
    "sys.exit(0)": "killed(raise)",
    "os._exit(0)": "crash",
    "os.killpg(0, 9)": "crash",
    "raise KeyboardInterrupt": "crash",
    "import pytest; pytest.exit('enough')": "crash",
    "y = print('x' * 300_000) or x": "killed",
    "y = os.write(2, b'x' * 300_000)": "killed",
    "import pytest; pytest.skip('no')": "unexercised",
    "y = bytearray(64 << 30)": "killed(raise)",
}


@pytest.fixture(scope="module")
def behaviours(project_type: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    project = project_type(tmp_path_factory.mktemp("behaviours"))
    for number, new in enumerate(BEHAVIOURS):
        text = CORE.format(new=new, words="").replace("[g", f"[g{number}")
        project.write(f"toy/core{number}.py", text)
        project.write(f"tests/test_{number}.py", KILLER.replace("g/m", f"g{number}/m").replace("core", f"core{number}"))
    return project.mutate("-n", "2")


@pytest.mark.kills("skipped-is-unexercised/survived")
@pytest.mark.parametrize(("number", "new"), list(enumerate(BEHAVIOURS)), ids=list(BEHAVIOURS))
def test_what_the_code_does_under_the_mutant(behaviours: Any, number: int, new: str) -> None:
    assert behaviours.verdict(f"g{number}/m") == BEHAVIOURS[new], behaviours.text


def test_an_undecided_mutant_alone_is_exit_7(project: Any) -> None:
    make(project, "os._exit(0)")
    done = project.mutate()
    assert done.code == 7
    assert "left with exit code 0 and no answer" in done.text


def test_strict_counts_assertions_only(project: Any) -> None:
    make(project, "y = x.z")
    done = project.mutate("--mutate-strict")
    assert done.code == 6
    assert "claims the kill but says: killed(raise)" in done.text


@pytest.mark.kills("claim-checked/removed")
def test_a_kill_by_another_test_does_not_save_a_false_claim(project: Any) -> None:
    claim = KILLER + "\n    @pytest.mark.kills('g/m')\n    def test_idle():\n        pass\n"
    make(project, tests=claim)
    done = project.mutate()
    assert done.verdict("g/m") == "killed"
    assert done.code == 6
    assert "tests/test_toy.py::test_idle claims the kill but says: survived" in done.text


def test_without_a_claim_every_test_that_reaches_runs_and_the_gap_is_named(project: Any) -> None:
    make(project, tests=KILLER.replace('@pytest.mark.kills("g/m")', ""))
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("killed", 6)
    assert "no test claims it" in done.text


def test_one_case_of_a_parametrized_killer_is_enough(project: Any) -> None:
    tests = KILLER.replace("def test_f():", "@pytest.mark.parametrize('x', [0, 1])\n    def test_f(x):")
    make(project, "y = x + 1 if x else 1", tests=tests.replace("f(1) == 2", "f(x) == x + 1"))
    assert project.mutate().code == 6
    make(project, "y = x + 1 if x else 7", tests=tests.replace("f(1) == 2", "f(x) == x + 1"))
    assert project.mutate().code == 0


def test_a_decoy_must_survive(project: Any) -> None:
    unmarked = KILLER.replace('@pytest.mark.kills("g/m")', "")
    make(project, "y = 1 + x", " decoy", unmarked)
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("survived", 0), done.text
    make(project, "y = 2 + x", " decoy", unmarked)
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("decoy-killed", 6)


def test_unpaired_may_survive_but_must_not_be_killed(project: Any) -> None:
    unmarked = KILLER.replace('@pytest.mark.kills("g/m")', "")
    make(project, "y = 1 + x", " unpaired: only speed differs", unmarked)
    assert project.mutate().code == 0
    make(project, "y = 2 + x", " unpaired: only speed differs", unmarked)
    done = project.mutate()
    assert done.code == 6
    assert "says unpaired, but tests/test_toy.py::test_f kills it" in done.text


def test_a_red_suite_stops_before_the_first_mutant(project: Any) -> None:
    make(project, tests=KILLER + "\n    @pytest.mark.kills('g/m')\n    def test_red():\n        assert f(1) == 3\n")
    done = project.mutate()
    assert done.code == 1
    assert "red without a mutant, so nothing was run: 1 tests" in done.text
    assert done.report["results"] == []


def test_a_suite_of_skips_is_unexercised_not_survived(project: Any) -> None:
    make(project, tests=KILLER.replace("assert", "pytest.skip('no'); assert"))
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("unexercised", 6)
    assert "claims the kill but is skipped without a mutant" in done.text


@pytest.mark.kills("xfail-is-no-pass/passes")
def test_a_strict_xpass_is_no_kill(project: Any) -> None:
    tests = KILLER.replace("def test_f", "@pytest.mark.xfail(strict=True)\n    def test_f").replace("== 2", "== 0")
    make(project, tests=tests)
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("unexercised", 6)


def test_a_fixture_that_fails_is_no_kill(project: Any) -> None:
    tests = KILLER.replace("def test_f():", "def test_f(two):").replace("f(1)", "two")
    fixture = "\n    @pytest.fixture\n    def two():\n        assert f(1) == 2\n        return 2\n"
    make(project, tests=tests + fixture)
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("setup-error", 7)


def test_an_import_that_fails_is_no_kill(project: Any) -> None:
    make(project, "raise ImportError('no')", " cold", KILLER.replace("import f", "import f; f(0)", 1))
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("collect-error", 7)


@pytest.mark.kills("timeout-no-kill/counted", "whole-group/child-only")
def test_an_endless_loop_with_a_grandchild_leaves_nothing_behind(project: Any) -> None:
    sleeper = f"sleep 12345.{os.getpid()}"
    make(project, f"__import__('subprocess').Popen('{sleeper}', shell=True)\n        #   + while True: pass")
    begun = time.monotonic()
    done = project.mutate("--mutate-timeout-factor=1.5")
    left = subprocess.run(["pgrep", "-f", sleeper], capture_output=True, text=True, check=False).stdout.split()
    for process in left:
        os.kill(int(process), signal.SIGKILL)
    assert (done.verdict("g/m"), done.code) == ("timeout", 7), done.text
    assert time.monotonic() - begun < 20
    assert left == []


@pytest.mark.kills("controls-first/survivors-first")
def test_a_failed_control_covers_every_other_code() -> None:
    survivor = MutantResult("g/m", Verdict.SURVIVED)
    assert exit_code([survivor], Controls(), strict=False) == 6
    assert exit_code([survivor], Controls(failed=["no-op"]), strict=False) == 3


@pytest.mark.kills("own-message/any-nonce")
def test_an_answer_that_is_not_the_childs_own_is_none(tmp_path: Path) -> None:
    def launch(task: Task, pipe: int, folder: Path) -> int:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            send(pipe, Answer(task.id, "guessed", tests=[TestOutcome("t", "assertion")]))
            os._exit(0)
        return pid

    (result,) = Pool(1, tmp_path, launch).run([Task("g/m", ["t"], 5.0)])
    assert (result.status, result.answer) == ("crash", None)


@pytest.mark.kills("environment-restored/kept")
def test_a_test_that_breaks_the_environment_does_not_decide_the_next(project: Any) -> None:
    claim = "\n    @pytest.mark.kills('g/m')\n    def test_"
    broken = f"{claim}a():\n        import os\n        os.environ.clear(); os.chdir('/')\n        assert f(1) == 2\n"
    after = f"{claim}z():\n        import os\n        assert 'HOME' in os.environ and os.listdir('toy') and f(1) == 2\n"
    make(project, tests=KILLER + broken + after)
    done = project.mutate()
    assert done.code == 0, done.text


def test_a_test_that_differs_between_runs_is_quarantined_and_named(project: Any) -> None:
    odd = "\n    def test_odd():\n        from pathlib import Path\n        Path('seen').mkdir()\n"
    make(project, tests=KILLER + odd)
    done = project.mutate("--mutate-matrix")
    assert done.code == 0
    assert "quarantined, differs without a mutant: tests/test_toy.py::test_odd" in done.text


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
    make(project)
    slow = CORE.format(new="import time; time.sleep(98)", words="").replace("def f", "def g").replace("[g", "[slow")
    project.write("toy/slow.py", slow)
    tests = KILLER.replace("core import f", "slow import g").replace("g/m", "slow/m").replace("f(", "g(")
    project.write("tests/test_slow.py", tests)
    started = project.start("--mutate", "--mutate-timeout-factor=1e6", "--mutate-jobs=1")
    deadline = time.monotonic() + 20
    while not (children := children_of(started.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)
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


def test_narrowed_tests_narrow_the_mutants(project: Any) -> None:
    make(project)
    project.write("tests/test_other.py", "def test_o(): pass\n")
    done = project.mutate("tests/test_other.py")
    assert done.code == 5
    done = project.mutate("tests/test_toy.py", "-n", "2")
    assert (done.code, done.verdict("g/m")) == (0, "killed")
