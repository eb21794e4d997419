"""A pytest session without `--mutate`: cards are checked all the same, and mutants can be looked at."""

from __future__ import annotations

import re
from typing import Any

import pytest


def test_each_file_with_cards_is_one_item(toy: Any) -> None:
    done = toy.pytest("-v")
    assert done.code == 0
    assert "toy/core.py::cards PASSED" in done.text
    assert "4 passed" in done.text


def test_drift_turns_a_plain_session_red(toy: Any) -> None:
    core = toy.root / "toy/core.py"
    core.write_text(core.read_text().replace("\n    if x < 0:", "\n    if x <= 0:"))
    done = toy.pytest("-k", "keeps")
    assert done.code == 1
    assert "toy/core.py:3: mutant[floor/removed] drifted: the card says '<', line 7 says '<='" in done.text


@pytest.mark.kills("empty-selection/cards-always")
def test_a_selection_of_nothing_stays_nothing(toy: Any) -> None:
    assert toy.pytest("-k", "nowhere").code == 5


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ('"floor/gone"', "unknown mutant 'floor/gone'"),
        ("", "names no mutant"),
        ('"floor/removed", strict=True', "takes no keywords"),
    ],
)
def test_a_wrong_claim_turns_a_plain_session_red(toy: Any, mark: str, expected: str) -> None:
    toy.write("tests/test_more.py", f"import pytest\n@pytest.mark.kills({mark})\ndef test_x(): pass\n")
    done = toy.pytest("tests/test_more.py")
    assert done.code == 1
    assert expected in done.text


def test_list_and_show(toy: Any) -> None:
    done = toy.pytest("--mutate-list")
    assert done.code == 0
    assert "tests/test_toy.py::test_floor" in done.text
    assert "1 guards, 1 mutants (0 decoys)" in done.text
    done = toy.pytest("--mutate-show=floor/removed")
    assert "-    if x < 0:\n-        return 0\n+    pass\n" in done.text
    assert re.search(r"^see it happen: .*pytest --mutate-with=floor/removed$", done.text, re.M)
    done = toy.pytest("--mutate-show=floor/removed", "tests/test_toy.py")
    assert re.search(r"^see it happen: .*pytest --mutate-with=floor/removed tests/test_toy.py$", done.text, re.M)


def test_an_unknown_id_is_a_usage_error(toy: Any) -> None:
    for option in ("--mutate-show=floor/gone", "--mutate-with=floor/gone"):
        done = toy.pytest(option)
        assert done.code == 4
        assert "unknown mutant 'floor/gone'; did you mean floor/removed?" in done.text


def test_with_runs_pytest_under_the_mutant(toy: Any) -> None:
    done = toy.pytest("--mutate-with=floor/removed")
    assert done.code == 1
    assert "running under floor/removed" in done.text
    assert "1 failed, 3 passed" in done.text
    assert "-1 = clamp(-1)" in done.text


def test_with_that_no_test_imports_is_not_applied(toy: Any) -> None:
    toy.write("tests/test_toy.py", "def test_nothing(): pass\n")
    done = toy.pytest("--mutate-with=floor/removed")
    assert done.code == 4
    assert "not applied" in done.text


def test_unknown_settings_are_errors(toy: Any) -> None:
    toy.write("pyproject.toml", '[tool.teachkv-mutate]\npackage = ["toy"]\n')
    done = toy.pytest()
    assert done.code == 4
    assert "unknown key 'package'" in done.text


def test_a_run_restarts_itself_so_that_numpy_starts_no_threads(toy: Any) -> None:
    lines = "import numpy, os\n\ndef test_one():\n    assert os.environ['OPENBLAS_NUM_THREADS'] == '1'\n"
    toy.write("tests/test_numpy.py", lines)
    done = toy.mutate(fresh=True, TEACHKV_MUTATE_RESTARTED="", OPENBLAS_NUM_THREADS="4")
    assert done.code == 0, done.text
    assert done.result("floor/removed")["how"] == "hot"


def test_without_the_restart_threads_make_every_child_a_fresh_interpreter(toy: Any) -> None:
    toy.write(
        "tests/conftest.py",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
    )
    done = toy.mutate()
    assert done.code == 0, done.text
    assert "no forking: 2 Python threads are running; each child was a fresh interpreter" in done.text
    done = toy.mutate("--mutate-isolation=fork")
    assert done.code == 4
    assert "use auto or spawn" in done.text
