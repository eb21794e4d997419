"""Each verdict, each from a package of its own."""

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
from tests.mutate.one_guard import CORE, KILLER, make


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


def test_a_suite_of_skips_is_unexercised_not_survived(project: Any) -> None:
    make(project, tests=KILLER.replace("assert", "pytest.skip('no'); assert"))
    done = project.mutate()
    assert (done.verdict("g/m"), done.code) == ("unexercised", 6)
    assert "claims the kill but is skipped without a mutant" in done.text


def test_one_case_that_skips_does_not_excuse_one_that_passed(project: Any) -> None:
    tests = KILLER.replace("def test_f():", "@pytest.mark.parametrize('x', [0, 1])\n    def test_f(x):")
    new = "import pytest; y = x + 1 if x else pytest.skip('no')"
    make(project, new, tests=tests.replace("f(1) == 2", "f(x) == x + 1"))
    assert project.mutate().verdict("g/m") == "survived"


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
