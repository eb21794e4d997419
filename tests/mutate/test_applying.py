"""How a mutant reaches every holder of the code: one package, one guard per way of holding it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mutate.ground_truth import compare, extend, truth

RAN = "ran before the fork"
WAYS = {
    # name: (definition, tests expression true without the mutant, how)
    "plain": ("def plain(x):\n{card}\n    return x + 1", "core.plain(1) == 2", "hot"),
    "imported": ("def imported(x):\n{card}\n    return x + 1", "taken(1) == 2", "hot"),
    "decorated": ("@deco\ndef decorated(x):\n{card}\n    return x + 1", "core.decorated(1) == 2", "hot"),
    "method": ("class M:\n  def m(self, x):\n{card}\n    return x + 1", "core.M().m(1) == 2", "hot"),
    "property": ("class P:\n  @property\n  def p(self, x=1):\n{card}\n    return x + 1", "core.P().p == 2", "hot"),
    "super": (
        "class S(M):\n  def m(self, x):\n    x = super().m(x) - 1\n{card}\n    return x + 1",
        "core.S().m(1) == 2",
        "hot",
    ),
    "closure": ("def make(x):\n def inner():\n{card}\n    return x + 1\n return inner", "core.make(1)() == 2", "hot"),
    "wrapper": ("@outer\ndef wrapped(x):\n    return x", "core.wrapped(1) == 2", "hot"),
    "cached": ("@functools.lru_cache\ndef cached(x):\n{card}\n    return x + 1", "core.cached(1) == 2", "hot"),
    "generator": ("def generator(x):\n{card}\n    return x + 1\n    yield", "result(core.generator(1)) == 2", "hot"),
    "warm": ("@functools.lru_cache\ndef warm(x):\n{card}\n    return x + 1\nwarm(1)", "core.warm(1) == 2", RAN),
    "early": ("def early(x):\n{card}\n    return x + 1\nEARLY = early(1)", "core.EARLY == 2", RAN),
    "default": ("x = 1\ndef default(y=x * 2):\n    return y", "core.default() == 2", "module or class level"),
    "constant": ("CONSTANT = 1 + 1", "core.CONSTANT == 2", "module or class level"),
    "attribute": ("class A:\n    a = 1 + 1", "core.A.a == 2", "module or class level"),
}  # fmt: skip
OWN = {
    "wrapper": "",
    "default": ("x = 1\n", "def default(y=x * 2):", "def default(y=x * 3):", "\n    return y"),
    "constant": ("", "CONSTANT = 1 + 1", "CONSTANT = 1 + 2", ""),
    "attribute": ("class A:\n", "    a = 1 + 1", "    a = 1 + 2", ""),
}


def cards(name: str, old: str, new: str, margin: str) -> str:
    lines = [f"# guard[{name}]: why", f"# mutant[{name}/m]:", f"#   - {old}", f"#   + {new}"]
    return "\n".join(margin + line for line in lines)


def definition(name: str) -> str:
    text = WAYS[name][0]
    if name == "wrapper":
        card = cards(name, "return function(x) + 1", "return function(x) + 2", " " * 8)
        head = (
            f"def outer(function):\n    def wrapper(x):\n{card}\n        return function(x) + 1\n    return wrapper\n"
        )
        return head + text
    if name in OWN:
        before, old, new, after = OWN[name]
        margin = old[: len(old) - len(old.lstrip())]
        return before + cards(name, old.strip(), new.strip(), margin) + "\n" + old + after
    return text.format(card=cards(name, "return x + 1", "return x + 2", "    "))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    project = request.getfixturevalue("project_type")(tmp_path_factory.mktemp("ways"))
    head = "import functools\n\ndef deco(function):\n    return functools.wraps(function)(lambda *a: function(*a))\n\n"
    (project.root / "toy/core.py").write_text(head + "\n\n".join(definition(name) for name in WAYS) + "\n")
    late = "def late(x):\n" + cards("late", "return x + 1", "return x + 2", "    ") + "\n    return x + 1\n"
    (project.root / "toy/late.py").write_text(late)
    lines = ["import pytest", "from toy import core", "from toy.core import imported as taken", NEXT]
    for name, (_, expression, _) in WAYS.items():
        lines.append(f"@pytest.mark.kills('{name}/m')\ndef test_{name}():\n    assert {expression}\n")
    lines.append(
        "@pytest.mark.kills('late/m')\ndef test_late():\n    from toy.late import late\n    assert late(1) == 2\n"
    )
    project.write("tests/test_toy.py", "\n".join(lines))
    done = project.mutate()
    done.root = project.root
    return done


NEXT = """
def result(generator):
    try:
        next(generator)
    except StopIteration as stop:
        return stop.value
"""


def test_everything_is_killed_and_the_controls_hold(done: Any) -> None:
    assert done.code == 0, done.text
    assert "canary killed (hot, cold)" in done.text or "canary killed (cold, hot)" in done.text


@pytest.mark.parametrize("name", [*WAYS, "late"])
def test_it_is_applied_in_place_exactly_where_that_is_sound(done: Any, name: str) -> None:
    assert done.verdict(f"{name}/m") == "killed"
    assert done.result(f"{name}/m")["how"] == (WAYS[name][2] if name in WAYS else "hot")


def test_patching_the_disk_and_running_plain_pytest_says_the_same(done: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p teachkv.mutate.plugin")  # for the `kills` marker
    assert len(done.report["results"]) == len(WAYS) + 1
    assert compare(done.root, done.report) == []
    wrong = {**done.report, "results": [{**done.report["results"][0], "verdict": "survived"}]}
    assert len(compare(done.root, wrong)) == 1


def test_plain_pytest_runs_in_the_lane_of_the_verdict(toy: Any) -> None:
    toy.write("tests/test_toy.py", "import os\ndef test_lane(): assert 'NUMBA_ENABLE_CUDASIM' in os.environ\n")
    place = {"path": "toy/core.py", "first": 1, "last": 1}
    result = {**place, "replacement": "def clamp(x):", "tests": {"tests": "passed"}}
    found = {lane: truth(toy.root, {**result, "lane": lane}, 60.0) for lane in ("python", "numba-sim")}
    assert found == {"python": "killed", "numba-sim": "survived"}


KERNEL = "// mutant[k/m]:\n//   - if (i >= n) return;\n//   + if (i > n) return;\nif (i >= n) return;  // tail\n"
KERNEL_TESTS = """
    from pathlib import Path

    TEXT = Path("toy/k.cu").read_text()
    if "mutant[" in TEXT and "\\nif (i >= n)" not in TEXT:
        raise RuntimeError("drifted")

    def test_k():
        assert TEXT.splitlines()[3] == "if (i >= n) return;  // tail"

    def test_tail():
        assert TEXT.count("\\n") == 4
"""


def kernel_result(toy: Any, test: str) -> dict[str, Any]:
    toy.write("toy/k.cu", KERNEL)
    toy.write("tests/test_toy.py", KERNEL_TESTS)
    place = {"path": "toy/k.cu", "first": 4, "last": 4, "replacement": "if (i > n) return;", "lane": "host"}
    return {**place, "id": "k/m", "verdict": "killed", "tests": {f"tests/test_toy.py::{test}": "assertion"}}


def test_a_patched_kernel_has_no_cards_that_its_tests_would_find_drifted(toy: Any) -> None:
    assert truth(toy.root, kernel_result(toy, "test_k"), 60.0) == "killed"
    assert truth(toy.root, kernel_result(toy, "test_tail"), 60.0) == "survived"


def test_a_report_of_another_lane_adds_to_the_record(toy: Any, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    old = {"verdicts": {"a/b": "survived", "k/m": "killed"}, "different": ["a/b: the plugin says killed", "k/m: old"]}
    record.write_text(json.dumps(old))
    results = [kernel_result(toy, "test_k"), {**kernel_result(toy, "test_k"), "id": "k/n"}]
    assert extend(record, toy.root, {"results": results}, 1, 60.0) == ["a/b: the plugin says killed"]
    found = json.loads(record.read_text())
    assert (found["mutants"], found["compared"], found["different"]) == (3, 3, ["a/b: the plugin says killed"])
