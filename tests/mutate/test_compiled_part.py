"""Compiling only the function or class around a change says the same as compiling both whole files."""

from __future__ import annotations

import pytest

from teachkv.mutate.codetree import compile_pair, compile_source, differences

TEXT = '''"""A module."""

from __future__ import annotations

import functools

LIMIT = 3


@functools.lru_cache(maxsize=8)
def cached(x: int, y: Missing = 2) -> int:
    return x + y


class Box:
    size: Missing = 4

    def put(self, x):
        __hidden = x
        return [__hidden + item for item in (1, 2)]


def last(x):
    if x:
        return """
  deep"""
    return x
'''
CHANGES = [
    ("return x + y", "return x - y"),
    ("maxsize=8", "maxsize=9"),
    ("y: Missing = 2", "y: Missing = 3"),
    ("size: Missing = 4", "size: Missing = 5"),
    ("__hidden + item", "__hidden - item"),
    ("LIMIT = 3", "LIMIT = 4"),
    ("from __future__ import annotations", "from __future__ import division"),
    ("import functools", "from functools import cache as functools"),
    ("  deep", "  high"),
    ("    return x\n", "return x = 1\n"),
    ("    return x\n", "y = 1\n"),
    ("    return x\n", "    return x\n\n\ndef more(): pass\n"),
    ('        return """\n', '        return """" """\n'),
]


def found(old: str, new: str, whole: bool) -> object:
    """Each differing code object with both versions of it, or the kind of error."""
    try:
        pair = (compile_source(old, "m.py"), compile_source(new, "m.py")) if whole else compile_pair(old, new, "m.py")
    except SyntaxError:
        return "SyntaxError"
    return [(one.old.co_qualname, code_of(one.old), code_of(one.new)) for one in differences(*pair)]


def code_of(code):
    """A function as it is, first line and all; of a module or class body only its name: the rest is blank there."""
    return code if code.co_flags & 1 else code.co_name


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_part_tells_what_the_whole_tells(old: str, new: str) -> None:
    changed = TEXT.replace(old, new, 1)
    assert changed != TEXT
    assert found(TEXT, changed, whole=False) == found(TEXT, changed, whole=True) != []


def test_an_open_string_that_ends_below_is_asked_of_the_whole() -> None:
    text = "def f():\n    return 1\n\n\ndef g():\n    return 2  # '''\n"
    changed = text.replace("return 1", "'''     ")
    assert found(text, changed, whole=False) == found(text, changed, whole=True) != []


def test_only_the_part_is_compiled() -> None:
    text = "def f():\n    return 1\n" + "".join(f"\n\ndef g{n}():\n    return {n}\n" for n in range(50))
    before, after = compile_pair(text, text.replace("return 1\n", "return 2\n", 1), "m.py")
    assert (before.co_names, after.co_names) == (("f",), ("f",))
