"""Compiled functions are judged in a lane where they are plain Python."""

from __future__ import annotations

from typing import Any

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


def test_a_jitted_function_runs_in_its_own_lane_by_default(project: Any) -> None:
    project.write("toy/core.py", CORE)
    project.write("tests/test_toy.py", TESTS)
    done = project.mutate(fresh=True)
    assert done.code == 0, done.text
    lanes = {result["id"]: (result["lane"], result["verdict"]) for result in done.report["results"]}
    assert lanes == {"g/m": ("numba-nojit", "killed"), "p/m": ("python", "killed")}


def test_a_kernel_file_has_no_lane_yet_and_says_so(project: Any) -> None:
    kernel = "// guard[k]: why\n// mutant[k/m]:\n//   - if (i >= n) return;\n//   +\nif (i >= n) return;\n"
    project.write("toy/k.cu", kernel)
    project.write("tests/test_toy.py", "def test_nothing(): pass\n")
    done = project.mutate("--mutate-lane=host")
    assert done.code == 4
    assert "--mutate-lane=host: the lane needs raw kernels" in done.text
