"""A package with one guard, one mutant and its killer; tests change one of the three."""

from __future__ import annotations

from typing import Any

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
