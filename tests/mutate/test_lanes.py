"""Compiled functions are judged in a lane where they are plain Python."""

from __future__ import annotations

import json
from typing import Any

import pytest

CORE = """
    import numba

    @numba.njit
    def double(x):
        # guard[g]: why
        # mutant[g/m]:
        #   - return x + x
        #   + return x
        return x + x

    def plain(x):
        # guard[p]: why
        # mutant[p/m]:
        #   - return double(x)
        #   + return x
        return double(x)
"""
TESTS = """
    import pytest
    from toy.core import double, plain

    @pytest.mark.kills("g/m")
    def test_double():
        assert double(3) == 6

    @pytest.mark.kills("p/m")
    def test_plain():
        assert plain(3) == 6
"""


@pytest.mark.kernels
def test_a_jitted_function_runs_in_its_own_lane_by_default(project: Any) -> None:
    project.write("toy/core.py", CORE)
    project.write("tests/test_toy.py", TESTS)
    done = project.mutate(fresh=True)
    assert done.code == 0, done.text
    lanes = {result["id"]: (result["lane"], result["verdict"]) for result in done.report["results"]}
    assert lanes == {"g/m": ("numba-nojit", "killed"), "p/m": ("python", "killed")}


KERNEL = """
    // guard[k]: nobody writes past the end
    // mutant[k/m]:{words}
    //   - if (i >= n) return;
    //   + if (i > n) return;
    if (i >= n) return;
"""
LOADER = """
    import os
    from pathlib import Path

    def text(wanted="k.cu"):
        for entry in os.environ.get("TOY_KERNELS", "").split(":"):
            name, _, path = entry.partition("=")
            if name == wanted:
                return Path(path).read_text()
        return (Path(__file__).parent / wanted).read_text()

    def code(text):
        lines = [line.replace(" + 0", "").strip() for line in text.splitlines() if not line.lstrip().startswith("//")]
        if "#error" in " ".join(lines):
            raise RuntimeError("does not compile")
        return lines

    def differing(name, other):
        assert name == "k.cu"
        yield code(other) != code(text())
"""
KERNEL_TESTS = """
    import pytest
    from toy.loader import code, text

    @pytest.mark.kills("k/m")
    def test_k():
        assert "if (i >= n) return;" in code(text())
"""


@pytest.fixture
def kernels(project: Any) -> Any:
    settings = 'kernel_override = "TOY_KERNELS"\nkernel_check = "toy.loader:differing"\n'
    pyproject = project.root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("packages", settings + "packages"))
    project.write("toy/k.cu", KERNEL.format(words=""))
    project.write("toy/loader.py", LOADER)
    project.write("tests/test_toy.py", KERNEL_TESTS)
    return project


def test_a_kernel_is_not_judged_unless_its_lane_is_asked_for(kernels: Any) -> None:
    done = kernels.mutate()
    assert done.code == 5


@pytest.mark.parametrize(
    "isolation", [pytest.param("fork", marks=pytest.mark.kills("kernel-served/not-asked")), "spawn"]
)
def test_the_loader_gets_the_mutated_text_and_the_read_is_seen(kernels: Any, isolation: str) -> None:
    args = ("--mutate-lane=host", f"--mutate-isolation={isolation}")
    done = kernels.mutate(*args)
    assert done.code == 0, done.text
    assert (done.verdict("k/m"), done.result("k/m")["lane"], done.result("k/m")["reached_by"]) == ("killed", "host", 1)
    assert "canary killed" in done.text
    loader = kernels.root / "toy/loader.py"
    loader.write_text(loader.read_text().replace("TOY_KERNELS", "OTHER"))
    unserved = kernels.mutate(*args)
    assert unserved.code == 3
    assert "no-op of k/m was not applied" in unserved.text  # the canary, which survives, would fail the run alone


@pytest.mark.parametrize("lane", ["host", "nvrtc"])
def test_what_a_lane_judges_is_not_said_to_be_left_out(kernels: Any, lane: str) -> None:
    kernels.write("tests/test_other.py", "def test_other(): pass\n")
    done = kernels.mutate(f"--mutate-lane={lane}")
    assert (done.report["left_out"], done.report["notes"]) == (0, []), done.text


def test_of_narrowed_tests_each_unclaimed_kernel_mutant_is_left_out_once(kernels: Any) -> None:
    second = KERNEL.replace("k]", "l]").replace("k/m", "l/m").replace("i > n", "i < n")
    kernels.write("toy/k.cu", KERNEL.format(words="") + second.format(words=" sync"))
    done = kernels.mutate("--mutate-lane=nvrtc", "tests/test_toy.py")
    assert (done.report["left_out"], done.report["notes"]) == (1, []), done.text
    done = kernels.mutate("--mutate-lane=host", "tests/test_toy.py")
    notes = ["1 mutants belong to lane tsan, which was not asked for"]
    assert (done.report["left_out"], done.report["notes"]) == (0, notes), done.text


def test_two_lanes_may_judge_the_same_kernel(kernels: Any) -> None:
    done = kernels.mutate("--mutate-lane=host,nvrtc", "--mutate-report=stryker:s.json")
    found = {(result["id"], result["lane"], result["verdict"]) for result in done.report["results"]}
    assert found == {("k/m", "host", "killed"), ("k/m", "nvrtc", "compiles")}, done.text
    assert (done.code, done.report["left_out"]) == (0, 0), done.text
    assert "1 mutant of 1 guard: 1 compiles, 1 killed; all cards hold" in done.text
    [file] = json.loads((kernels.root / "s.json").read_text())["files"].values()
    assert [mutant["id"] for mutant in file["mutants"]] == ["k/m in lane host", "k/m in lane nvrtc"]


def test_a_dropped_barrier_belongs_to_the_race_lane(kernels: Any) -> None:
    kernels.write("toy/k.cu", KERNEL.format(words=" sync"))
    assert kernels.mutate("--mutate-lane=host").code == 5
    assert kernels.mutate("--mutate-lane=tsan").verdict("k/m") == "killed"


@pytest.mark.parametrize(
    ("new", "verdict", "code"),
    [
        ("if (i > n) return;", "compiles", 0),
        ("if (i >= n + 0) return;", "no-change", 4),
        ("#error", "compile-error", 7),
    ],
)
def test_the_compiler_alone_finds_the_same_kernel_and_no_kernel(
    kernels: Any, new: str, verdict: str, code: int
) -> None:
    kernels.write("toy/k.cu", KERNEL.format(words="").replace("if (i > n) return;", new))
    done = kernels.mutate("--mutate-lane=nvrtc")
    assert (done.verdict("k/m"), done.code) == (verdict, code), done.text


GPU_TESTS = """
    import pytest
    from toy.loader import code, text

    pytestmark = pytest.mark.gpu

    @pytest.mark.kills("k/m")
    def test_k():
        assert "if (i >= n) return;" in code(text())

    def test_both():
        assert all("if (i >= n) return;" in code(text(name)) for name in ("k.cu", "l.cu"))
"""


def test_on_a_device_what_no_test_claims_meets_all_of_its_tests(kernels: Any) -> None:
    pyproject = kernels.root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text() + 'markers = ["gpu: needs a device"]\n')
    kernels.write("cupy.py", "")
    kernels.write("toy/l.cu", KERNEL.format(words=" sync").replace("k]", "l]").replace("k/m", "l/m"))
    kernels.write("tests/test_gpu.py", GPU_TESTS)
    done = kernels.mutate("--mutate-lane=gpu", fresh=True)
    assert (done.verdict("k/m"), done.result("k/m")["killer"]) == ("killed", "tests/test_gpu.py::test_k"), done.text
    assert (done.verdict("l/m"), done.result("l/m")["killer"]) == ("killed", "tests/test_gpu.py::test_both"), done.text
    assert done.report["left_out"] == 0


def test_a_lane_that_lacks_its_tools_says_so(kernels: Any) -> None:
    done = kernels.mutate("--mutate-lane=host", PATH="", CXX="")
    assert done.code == 4
    assert "--mutate-lane=host: needs a C++ compiler; install g++" in done.text
    done = kernels.mutate("--mutate-lane=gpu")
    assert done.code == 4
    assert "needs a device and CuPy" in done.text
    pyproject = kernels.root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('kernel_override = "TOY_KERNELS"\n', ""))
    done = kernels.mutate("--mutate-lane=host")
    assert done.code == 4
    assert "set [tool.teachkv-mutate] kernel_override" in done.text
