"""Reports: the published schema, one page without another host, annotations, the diff of what does not hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

SCHEMA = json.loads((Path(__file__).parent / "data" / "stryker-schema.json").read_text())
MORE = (
    "mutant[floor/idle]:\n  - if x < 0:\n  + if x <= 0:\nmutant[floor/spelled]: decoy\n  - if x < 0:\n  + if 0 > x:\n"
)


@pytest.fixture(scope="module")
def done(project_type: Any, toy_files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    project = project_type(tmp_path_factory.mktemp("reports"))
    for name, text in toy_files.items():
        project.write(name, text)
    project.write("toy/core.py.mutants", MORE)
    tests = project.root / "tests/test_toy.py"
    tests.write_text(tests.read_text().replace('"floor/removed"', '"floor/removed", "floor/idle"'))
    done = project.mutate("--mutate-report=stryker:s.json", "--mutate-report=html:p.html", "--mutate-report=github")
    done.root = project.root
    return done


def test_the_stryker_report_follows_the_published_schema(done: Any) -> None:
    data = json.loads((done.root / "s.json").read_text())
    jsonschema.validate(data, SCHEMA)
    mutants = {mutant["id"]: mutant for mutant in data["files"]["toy/core.py"]["mutants"]}
    statuses = {name: mutant["status"] for name, mutant in mutants.items()}
    assert statuses == {"floor/removed": "Killed", "floor/idle": "Survived", "floor/spelled": "Ignored"}
    assert mutants["floor/removed"]["location"] == {"start": {"line": 7, "column": 5}, "end": {"line": 8, "column": 17}}
    assert mutants["floor/removed"]["killedBy"] == ["tests/test_toy.py::test_floor"]
    assert data["testFiles"]["tests/test_toy.py"]["tests"][0]["name"] == "test_floor"


def test_the_page_needs_no_other_host_and_holds_the_matrix(done: Any) -> None:
    text = (done.root / "p.html").read_text()
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "http" not in own
    assert not re.findall(r"""\bsrc=["'`]?https?:""", text)
    assert "floor" in own
    assert "a negative count must never leave here" in own
    assert own.count('<td class="cell kill">&#9679;</td>') == 1
    assert text.count("</script>") == 2


def test_annotations_name_the_line(done: Any) -> None:
    lines = [line for line in done.text.splitlines() if line.startswith("::error")]
    assert len(lines) == 1
    assert lines[0].startswith("::error file=toy/core.py,line=7,title=mutant::floor/idle survived; ")


def test_what_does_not_hold_is_shown_as_a_diff(done: Any) -> None:
    assert done.code == 6
    assert "      -    if x < 0:\n      +    if x <= 0:\n" in done.text


def test_a_report_into_a_missing_folder_is_refused_before_the_run(toy: Any) -> None:
    done = toy.mutate("--mutate-report=html:none/p.html")
    assert done.code == 4
    assert "no folder" in done.text
