"""The page of public fault reports: what went wrong elsewhere, what is held right here, and the tests that pin it.

    python tools/case_pages.py check    reports without a test, marks without a report
    python tools/case_pages.py write    print the page (the site makes it as it is built)

Reports are told in docs/audit/cases.toml. Tests carry `@pytest.mark.case("owner/repo#number", ...)` and are found by
reading their source, so that the page needs none of what a test needs.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA, TESTS = ROOT / "docs" / "audit" / "cases.toml", ROOT / "tests"
KINDS = (
    "padding and masks", "prefix cache", "windows", "scheduling", "sampling", "text", "files", "kernels", "measuring",
)  # fmt: skip
ID = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[0-9]+")
KEYS = {"id", "kind", "wrong", "right", "also", "outside"}


@dataclass(frozen=True)
class Report:
    """One public report. `also`: reports near it; `outside`: why it cannot happen here, in place of tests."""

    id: str
    kind: str
    wrong: str
    right: str = ""
    also: tuple[str, ...] = ()
    outside: str = ""


@dataclass(frozen=True)
class Marked:
    """One test function with the ids it names and the other marks it stands under."""

    path: str
    name: str
    ids: tuple[str, ...]
    marks: tuple[str, ...]


def read_reports(path: Path = DATA) -> list[Report]:
    """Raises ValueError for a key, kind or id that is not one, for a report told twice, and for empty sentences."""
    reports = [report(table) for table in tomllib.loads(path.read_text(encoding="utf-8"))["report"]]
    named = [name for one in reports for name in (one.id, *one.also)]
    for name in named:
        if not ID.fullmatch(name) or named.count(name) > 1:
            raise ValueError(f"{path.name}: {name!r} is told twice or is no owner/repo#number")
    return reports


def report(table: dict[str, Any]) -> Report:
    one = Report(**{**table, "also": tuple(table.get("also", ()))}) if table.keys() <= KEYS else None
    if one is None or one.kind not in KINDS or not one.wrong or bool(one.right) == bool(one.outside):
        raise ValueError(f"cases.toml: {table.get('id')}: needs id, kind, wrong, and one of right and outside")
    return one


def find_marked(folder: Path = TESTS) -> list[Marked]:
    """Every test function with a case mark. Raises ValueError for a mark that stands on anything else."""
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.case" not in text:
            continue
        tree = ast.parse(text)
        tests = list(marked_functions(tree, path.relative_to(folder.parent).as_posix()))
        here = sum(len(find_marks(test, "case")) for test in ast.walk(tree) if isinstance(test, ast.FunctionDef))
        if here != sum(is_mark(node, "case") for node in ast.walk(tree)):
            raise ValueError(f"{path}: a case mark stands on a test function, and is called with its reports")
        found += tests
    return found


def marked_functions(tree: ast.Module, path: str) -> Iterator[Marked]:
    module = [mark for node in tree.body if is_pytestmark(node) for mark in other_marks(node)]
    for test in ast.walk(tree):
        calls = find_marks(test, "case") if isinstance(test, ast.FunctionDef) else []
        if isinstance(test, ast.FunctionDef) and calls:
            ids = tuple(ast.literal_eval(argument) for call in calls for argument in call.args)
            own = [mark for decorator in test.decorator_list for mark in other_marks(decorator)]
            yield Marked(path, test.name, ids, tuple(dict.fromkeys([*module, *own])))


def find_marks(test: ast.FunctionDef, name: str) -> list[ast.Call]:
    return [one for one in test.decorator_list if isinstance(one, ast.Call) and is_mark(one.func, name)]


def is_mark(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and ast.unparse(node.value) == "pytest.mark"


def is_pytestmark(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def other_marks(node: ast.AST) -> list[str]:
    """Those that decide whether a run takes the test."""
    return [
        name for name in ("gpu", "kernels", "model", "peers", "slow") if any(is_mark(n, name) for n in ast.walk(node))
    ]


def problems(reports: list[Report], marked: list[Marked]) -> list[str]:
    """What is missing on either side, one line each."""
    named = {name for test in marked for name in test.ids}
    known = {name for one in reports for name in (one.id, *one.also)}
    lines = [f"{one.id}: no test is marked with it" for one in reports if not one.outside and one.id not in named]
    lines += [
        f"{one.id}: said to be outside, and a test is marked" for one in reports if one.outside and one.id in named
    ]
    lines += [f"{name}: not told in {DATA.name}" for name in sorted(named - known)]
    return lines + [f"{test.path}::{test.name}: names no report" for test in marked if not test.ids]


def page(reports: list[Report], marked: list[Marked]) -> str:
    """Markdown, one section per kind."""
    inside = [one for one in reports if not one.outside]
    lines = [
        "# Faults reported elsewhere", "",
        f"{len(inside)} public reports about other engines and libraries, told in our own words, with the tests that",
        "hold the matter right here. A report is what its author saw or thought, not always a proven fault. A test",
        "that needs more than `make test` gives says what.", "",
    ]  # fmt: skip
    for kind in KINDS:
        part = [one for one in inside if one.kind == kind]
        if part:
            lines += [f"## {kind.capitalize()}", "", *(line for one in part for line in entry(one, marked))]
    outside = [one for one in reports if one.outside]
    lines += ["## Not ours", ""] if outside else []
    lines += [f"- {link(one.id)}: {one.wrong} *{one.outside}*" for one in outside]
    return "\n".join(lines) + "\n"


def entry(one: Report, marked: list[Marked]) -> Iterator[str]:
    yield from (f"### {link(one.id)}", "", f"{one.wrong} **Right:** {one.right}", "")
    for test in marked:
        if {one.id, *one.also} & set(test.ids):
            yield f"- `{test.path}::{test.name}`" + (f" ({', '.join(test.marks)})" if test.marks else "")
    if one.also:
        yield from ("", "Also: " + ", ".join(map(link, one.also)) + ".")
    yield ""


def link(name: str) -> str:
    """An issue's address also leads to a pull request of that number."""
    where, _, number = name.partition("#")
    return f"[{name}](https://github.com/{where}/issues/{number})"


def main() -> int:
    reports, marked = read_reports(), find_marked()
    if sys.argv[1:] == ["write"]:
        print(page(reports, marked))
        return 0
    found = problems(reports, marked)
    print("\n".join(found) or f"{len(reports)} reports, {len(marked)} tests")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
