"""Reading and placing cards: what is refused, and where the rewrite goes."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from teachkv.mutate.registry import Registry, as_data
from teachkv.mutate.settings import Settings

CARD = """
    def f(x, y):
        # guard[g]: why
        # mutant[g/a]: {words}
        #   - {old}
        #   + {new}
        {code}
        return x
"""


def load(folder: Path, text: str, name: str = "m.py", sidecar: str | None = None) -> Registry:
    path = folder / "pkg" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(text))
    if sidecar is not None:
        path.with_name(name + ".mutants").write_text(dedent(sidecar))
    return Registry.load(Settings(folder, (folder / "pkg",)))


def problems(registry: Registry) -> list[str]:
    found = [problem for file in registry.files for problem in registry.check_file(file)]
    return [problem.show(registry.root) for problem in registry.problems + found]


def card(code: str = "x = x + y", old: str = "x = x + y", new: str = "x = x - y", words: str = "") -> str:
    return CARD.format(code=code, old=old, new=new, words=words)


def rewritten(registry: Registry, mutant: str) -> list[str]:
    (text,) = registry.rewrite([registry.mutant(mutant)]).values()
    return text.splitlines()


def test_a_card_replaces_the_code_below_it(tmp_path: Path) -> None:
    registry = load(tmp_path, card())
    assert problems(registry) == []
    assert rewritten(registry, "g/a")[6:8] == ["    x = x - y", "    return x"]


@pytest.mark.kills("card-drift/place-only", "card-whole-lines/removed", "card-no-change/removed")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"code": "x = x * y"}, "drifted: the card says '+', line 7 says '*'"),
        ({"code": "x = x + y; y = 0"}, "goes on with ';'"),
        ({"new": "x  =  x + y  # same"}, "changes no token"),
        ({"new": "x = (x + y)"}, "same bytecode"),
        ({"new": "x = = y"}, "does not compile"),
        ({"words": "killme"}, "unknown word 'killme'"),
        ({"words": "unpaired"}, "without a reason"),
        ({"words": "with g/none"}, "no mutant[g/none]"),
    ],
)
def test_a_wrong_card_is_one_line_with_its_place(tmp_path: Path, changes: dict[str, str], expected: str) -> None:
    found = problems(load(tmp_path, card(**changes)))
    assert len(found) == 1
    assert found[0].startswith("pkg/m.py:4: ")
    assert expected in found[0]


def test_code_of_several_lines_ends_a_line_too(tmp_path: Path) -> None:
    found = problems(load(tmp_path, card(code="x = (x + y\n        ); y = 0", old="x = (x + y)")))
    assert len(found) == 1
    assert "the code goes on with ';'" in found[0]


@pytest.mark.parametrize("code", ["x = (x +\n             y)", "x = (x + y)  # remark"])
def test_layout_and_remarks_are_free(tmp_path: Path, code: str) -> None:
    assert problems(load(tmp_path, card(code=code, old="x = (x + y)", new="x = 0"))) == []


@pytest.mark.kills("typed-constants/by-value")
@pytest.mark.parametrize("new", ["True", "1.0"])
def test_a_constant_of_another_type_is_a_change(tmp_path: Path, new: str) -> None:
    assert problems(load(tmp_path, card(code="x = 1", old="x = 1", new=f"x = {new}"))) == []


def test_new_lines_are_padded_to_the_height_of_the_code(tmp_path: Path) -> None:
    registry = load(tmp_path, card(code="x = (x +\n             y)", old="x = (x + y)", new="x = 0"))
    assert rewritten(registry, "g/a")[6:9] == ["    x = 0", "", "    return x"]


def test_relative_indentation_counts(tmp_path: Path) -> None:
    text = """
        def f(x):
            # guard[g]: why
            # mutant[g/a]:
            #   - if x:
            #   -     x = 1
            #   -     x = 2
            #   + pass
            if x:
                x = 1
            x = 2
            return x
    """
    assert "indented otherwise" in problems(load(tmp_path, text))[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# guard[Big]: why", "unreadable guard"),
        ("# guard[g]:", "unreadable guard"),
        ("x = 1  # guard[g]: why", "behind code on its line"),
        ("# guard[g]: why\n# mutant[h/a]:\n#   - x = 1\n#   + x = 2", "stands under guard[g]"),
        ("# guard[g]: why\n# mutant[g/a]:\n# - x = 1\n#   + x = 2\n# a remark", "not a card line"),
        ("# guard[g]: why\n# mutant[g/a]:\n#   + x = 2", "no '- old' line"),
        ("# guard[g]: why", "has no mutant"),
        ("# mutant[g/a]:\n#   - x = 1\n#   + x = 2", "no guard[g] anywhere"),
    ],
)
def test_unreadable_cards(tmp_path: Path, line: str, expected: str) -> None:
    found = problems(load(tmp_path, line + "\nx = 1\n"))
    assert len(found) == 1
    assert expected in found[0]


def test_three_cards_above_one_guard_belong_in_the_sidecar(tmp_path: Path) -> None:
    cards = "".join(f"# mutant[g/a{n}]:\n#   - x = 1\n#   + x = {n}\n" for n in (2, 3, 4))
    assert "keep 2 and move the rest to m.py.mutants" in problems(load(tmp_path, f"# guard[g]: y\n{cards}x = 1\n"))[0]


@pytest.mark.kills("card-unique/removed")
def test_duplicate_ids_are_named_with_the_first_place(tmp_path: Path) -> None:
    load(tmp_path, card(), name="a.py")
    found = problems(load(tmp_path, card(), name="b.py"))
    assert found == [
        "pkg/b.py:3: duplicate id 'g', first at a.py:3; rename one",
        "pkg/b.py:4: duplicate id 'g/a', first at a.py:4; rename one",
    ]


def test_a_sidecar_card_is_placed_by_its_guard(tmp_path: Path) -> None:
    sidecar = "# remark\nmutant[g/b]: decoy\n  - x = x + y\n  + x = y + x\n"
    registry = load(tmp_path, card(), sidecar=sidecar)
    assert problems(registry) == []
    assert registry.mutant("g/b").words.decoy
    assert rewritten(registry, "g/b")[6] == "    x = y + x"


def test_a_drifted_sidecar_names_the_sidecar(tmp_path: Path) -> None:
    found = problems(load(tmp_path, card(), sidecar="mutant[g/b]:\n  - x = 1\n  + x = 2\n"))
    assert [line.split(" mutant")[0] for line in found] == ["pkg/m.py.mutants:1:"]


def test_a_sidecar_without_its_source_is_an_error(tmp_path: Path) -> None:
    load(tmp_path, card())
    (tmp_path / "pkg" / "m.mutants").write_text("")
    assert "without its source" in problems(load(tmp_path, card()))[0]


def test_cuda_cards_use_slashes_and_ignore_layout(tmp_path: Path) -> None:
    text = """
        __global__ void k(float* a) {
          // guard[tail]: threads past the end write nothing
          // mutant[tail/removed]:
          //   - if (i >= n) return;
          //   +
          if (i >= n)  /* past the end */
            return;
          a[i] = 0;
        }
    """
    registry = load(tmp_path, text, name="k.cu")
    assert problems(registry) == []
    assert rewritten(registry, "tail/removed")[6:9] == ["", "", "  a[i] = 0;"]


def test_a_card_shown_in_a_docstring_is_none(tmp_path: Path) -> None:
    text = '"""Shown:\n\n# guard[x]: y\n"""\n'
    assert load(tmp_path, text).files == []


def test_the_registry_tells_why_and_where(tmp_path: Path) -> None:
    text = card().replace("# guard[g]: why", "# guard[g]: why\n    # and more\n    # origin: vllm#1")
    (row,) = as_data(load(tmp_path, text), {"g/a": ["tests/t.py::t"]})
    expected = {"id": "g", "why": "why and more", "origin": "vllm#1", "file": "pkg/m.py", "line": 3}
    assert {key: row[key] for key in expected} == expected
    assert row["mutants"][0]["killers"] == ["tests/t.py::t"]
