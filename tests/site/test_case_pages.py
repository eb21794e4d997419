"""Every public report is pinned by a test that names it, and no test names a report that is not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.case_pages import KINDS, Report, find_marked, page, problems, read_reports

PLAIN = """
import pytest
pytestmark = [pytest.mark.slow]

@pytest.mark.gpu
@pytest.mark.case("a/b#1", "c/d#2")
def test_one() -> None: ...

def test_two() -> None: ...
"""
TOLD = '[[report]]\nid = "a/b#1"\nkind = "windows"\nwrong = "W."\nright = "R."\nalso = ["c/d#2"]\n'


def test_the_reports_and_the_tests_agree() -> None:
    reports = read_reports()
    assert problems(reports, find_marked()) == []
    assert {one.kind for one in reports} <= set(KINDS)


def marked(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_some.py").write_text(text)
    return folder


def told(tmp_path: Path, text: str) -> list[Report]:
    path = tmp_path / "cases.toml"
    path.write_text(text)
    return read_reports(path)


def test_a_page_links_the_report_and_names_its_tests(tmp_path: Path) -> None:
    reports, tests = told(tmp_path, TOLD), find_marked(marked(tmp_path, PLAIN))
    text = page(reports, tests)
    assert "### [a/b#1](https://github.com/a/b/issues/1)\n\nW. **Right:** R.\n" in text
    assert "- `tests/test_some.py::test_one` (slow, gpu)" in text
    assert "Also: [c/d#2](https://github.com/c/d/issues/2)." in text
    assert "test_two" not in text
    assert problems(reports, tests) == []


def test_a_report_without_a_test_and_a_mark_without_a_report_are_told(tmp_path: Path) -> None:
    reports = told(tmp_path, TOLD.replace("a/b#1", "e/f#3"))
    found = problems(reports, find_marked(marked(tmp_path, PLAIN)))
    assert found == ["e/f#3: no test is marked with it", "a/b#1: not told in cases.toml"]


def test_a_report_that_does_not_apply_gives_its_reason_in_place_of_tests(tmp_path: Path) -> None:
    outside = TOLD.replace('right = "R."', 'outside = "There are no images."')
    reports, tests = told(tmp_path, outside), find_marked(marked(tmp_path, PLAIN))
    assert "## Not ours\n\n- [a/b#1](https://github.com/a/b/issues/1): W. *There are no images.*" in page(reports, [])
    assert problems(reports, []) == []
    assert problems(reports, tests) == ["a/b#1: said to be outside, and a test is marked"]


@pytest.mark.parametrize(
    "change",
    [
        ("a/b#1", "b#1"),
        ("a/b#1", "c/d#2"),
        ("windows", "doors"),
        ('right = "R."', ""),
        ('right = "R."', 'right = "R."\noutside = "O."'),
        ('"W."', '""'),
        ("wrong", "wrongly"),
    ],
)
def test_a_report_that_is_told_badly_is_an_error(tmp_path: Path, change: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"cases\.toml"):
        told(tmp_path, TOLD.replace(*change))


@pytest.mark.parametrize(
    "text",
    [
        'pytestmark = pytest.mark.case("a/b#1")',
        "@pytest.mark.case\ndef test_one(): ...",
        '@pytest.mark.case("a/b#1")\nclass TestOne: ...',
    ],
)
def test_a_mark_that_no_scan_can_place_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="stands on a test function"):
        find_marked(marked(tmp_path, text))
