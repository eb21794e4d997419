"""Numbers in pages: each is compared with the record that the page names."""

from pathlib import Path

import pytest
from fakes import CELL, measured

from teachkv.bench.quotes import naming, problems, quote, quotes
from teachkv.bench.record import save_json
from teachkv.bench.trees import HERE

DOCS, EVIDENCE = HERE / "docs", HERE / "docs" / "evidence"


def test_every_number_that_the_docs_quote_matches_its_record() -> None:
    found = {page: problems(page, EVIDENCE) for page in sorted(DOCS.rglob("*.md"))}
    assert {str(page.relative_to(DOCS)): bad for page, bad in found.items() if bad} == {}


@pytest.fixture
def page(tmp_path: Path) -> Path:
    save_json({"traps": [{"got": 453, "share": 0.12345}]}, tmp_path / "t.json")
    lines = [
        naming(tmp_path / "t.json"),
        quote("t.json", "traps.0.got", "453"),
        quote("t.json", "traps.0.share .1%", "12.3%"),
    ]
    (tmp_path / "page.md").write_text("\n".join(lines))
    return tmp_path / "page.md"


def test_a_page_that_matches_has_no_problems(page: Path) -> None:
    assert problems(page, page.parent) == []
    assert quotes(page.read_text())[1] == ("t.json", "traps.0.share .1%", "12.3%")


@pytest.mark.kills("quoted-number/any-text")
def test_a_number_that_differs_is_found(page: Path) -> None:
    page.write_text(page.read_text().replace(">453<", ">433<"))
    assert problems(page, page.parent) == ["t.json: traps.0.got is 453, the page says 433"]


@pytest.mark.kills("quoted-record/any-checksum")
def test_a_record_that_was_measured_again_is_found(page: Path) -> None:
    save_json({"traps": [{"got": 453, "share": 0.12345}], "more": 1}, page.parent / "t.json")
    assert problems(page, page.parent) == ["t.json: has another checksum than the page states"]


def test_what_cannot_be_checked_is_a_problem(page: Path) -> None:
    text = page.read_text()
    page.write_text(text.replace("traps.0.got", "traps.1.got"))
    assert "IndexError" in problems(page, page.parent)[0]
    page.write_text("\n".join(text.splitlines()[1:]))
    assert problems(page, page.parent)[0] == "t.json: quoted, but the page does not name it with its checksum"
    page.write_text(text + "\n<!-- from t.json: traps.0.got -->453")
    assert "a quote is not closed by <!-- end -->" in problems(page, page.parent)
    (page.parent / "t.json").write_text((page.parent / "t.json").read_text().replace("453", "433"))
    page.write_text(text)
    assert any("does not match its checksum" in problem for problem in problems(page, page.parent))


def test_a_mean_over_samples_is_quoted_by_metric_arm_and_cell(tmp_path: Path) -> None:
    measured(tmp_path, {"a b": {}}, rounds=2)
    text = naming(tmp_path / "record.json") + "\n" + quote("record.json", f"decode_tok_s(a b, {CELL}) .0f", "1000")
    (tmp_path / "p.md").write_text(text)
    assert problems(tmp_path / "p.md", tmp_path) == []
