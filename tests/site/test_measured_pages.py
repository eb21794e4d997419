"""Pages with measured figures are what their records make of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cuda_kernels.registry import OPS
from tools import gpu_page, kernel_figures, kernel_pages, seed_page
from tools.rungs import cases, rungs

RECORDS = kernel_figures.read_records(kernel_figures.EVIDENCE)
VARIANTS = next(record for record in RECORDS if "variants" in record)


@pytest.mark.parametrize("tool", [gpu_page, seed_page], ids=["gpu_page", "seed_page"])
def test_the_page_is_what_its_records_make(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, made = tool.PAGE.read_text(encoding="utf-8"), tmp_path / "page.md"
    monkeypatch.setattr(tool, "PAGE", made)
    tool.main()
    assert made.read_text(encoding="utf-8") == written, f"python -m {tool.__name__}"


def test_rungs_are_the_lines_of_the_record() -> None:
    by_case = cases("attention_decode_ragged", VARIANTS)
    assert dict(by_case["B=1"]) == {"1 per block": 5.85, "2 per block": 5.27}
    counted = sum(len(timed) for op in OPS for timed in cases(op, VARIANTS).values())
    assert counted == len(VARIANTS["variants"]["lines"]), "every variant that was timed is on some page"


def test_the_fastest_rung_comes_first_and_the_machine_is_named() -> None:
    text = "\n".join(rungs("linear", RECORDS))
    assert "NVIDIA H200, driver 13000; record raw-kernels-h200-variants.json" in text
    for part in text.split("**")[2::2]:
        times = [float(found) for found in re.findall(r"\| ([\d.]+) \| <span", part)]
        assert times == sorted(times)
    assert list(rungs("embed", RECORDS)) == []


def test_a_kernel_page_has_its_tellings_pictures_players_and_figures() -> None:
    text = kernel_pages.page("linear", RECORDS)
    assert [text.count(f'=== "{title}"') for title, _ in kernel_pages.TELLINGS.values()] == [1, 2, 2]
    assert text.count("data-tkv-trace") == 2
    tab = text.partition('=== "Numba"')[2].partition('=== "Numba"')[2].partition("## ")[0]
    assert "\n    writes of out: " in tab
    assert [line for line in tab.splitlines() if line and not line.startswith(("    ", "==="))] == []
    assert "## Measured" in text
    assert "## Rungs" in text


def test_every_time_of_the_raw_kernels_stands_in_a_record() -> None:
    """The table is written by hand: each of its microseconds is a line of the record, rounded as the table rounds."""
    page = (kernel_figures.EVIDENCE / "raw-kernels-h200.md").read_text(encoding="utf-8")
    table = page.partition("## Fast, and not yet")[2].partition("Where it loses")[0]
    lines = [
        line for record in RECORDS for part in ("time", "variants") for line in kernel_figures.lines_of(record, part)
    ]
    known = [line[key] for line in lines for key in ("us", "cublas_us") if key in line]
    told = [figure for row in table.splitlines() if row.count("|") == 4 for figure in numbers(row.split("|")[2])]
    assert len(told) > 20
    assert [figure for figure in told if not any(rounded(value, figure) for value in known)] == []


@pytest.mark.parametrize(
    ("row", "ops"),
    [
        ("attention, decode and prefill", ("attention_decode_ragged", "attention_prefill")),
        ("linear", ("linear", "lm_head")),
        ("norms, rope", ("rms_norm", "qk_norm", "rope_and_append")),
    ],
)
def test_the_errors_of_the_raw_kernels_are_the_worst_of_the_record(row: str, ops: tuple[str, ...]) -> None:
    page = (kernel_figures.EVIDENCE / "raw-kernels-h200.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {row} |"))
    record = next(record for record in RECORDS if record["file"] == "raw-kernels-h200-check.json")
    for dtype, cell in zip(("float32", "float16", "bfloat16"), line.split("|")[2:], strict=False):
        worst = max(record["check"]["worst"][f"{op} {dtype}"] for op in ops)
        digits = len(cell.partition("e")[0].partition(".")[2])
        assert float(cell) == float(f"{worst:.{digits}e}"), dtype


def test_every_record_is_listed_on_the_audit_page() -> None:
    page = (kernel_pages.ROOT / "docs" / "audit" / "index.md").read_text(encoding="utf-8")
    kept = {path.name for path in kernel_figures.EVIDENCE.iterdir()}
    assert set(re.findall(r"\]\(\.\./evidence/([^)]+)\)", page)) == kept


def test_counts_on_the_audit_page_are_those_of_the_records() -> None:
    page = (kernel_pages.ROOT / "docs" / "audit" / "index.md").read_text(encoding="utf-8")
    record = {record["file"]: record for record in RECORDS}
    assert f"{record['mutation-ground-truth.json']['compared']} mutants" in page
    assert len(record["fuzz.json"]["readers"]) == 10
    assert record["fuzz.json"]["seconds"] == 3600


def test_what_is_told_of_the_h200_is_what_the_records_hold() -> None:
    page = (kernel_figures.EVIDENCE / "raw-kernels-h200.md").read_text(encoding="utf-8")
    record = {record["file"]: record for record in RECORDS}
    equal, families = record["gpu-equal.json"]["checks"], record["gpu-families.json"]["checks"]
    assert [check for check in equal if check["different"]] == []
    for count in {check["placements"] for check in equal if check["check"] == "placements"}:
        assert f"{count:,}" in page
    for count in (check["positions"] for check in equal if "positions" in check):
        assert f"{count:,}" in page
    assert f"within {100 * max(check['error'] / check['limit'] for check in families):.0f} % of its limit" in page
    cells, failed = (record["raw-kernels-h200-check.json"]["check"][key] for key in ("cells", "failed"))
    assert f"{cells} cells in three dtypes" in page
    assert failed == 0


def numbers(cell: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", cell)


def rounded(value: float, figure: str) -> bool:
    """Whether `figure` is `value` with as many decimals, or a whole number of three digits that are kept."""
    decimals = len(figure.partition(".")[2])
    return abs(value - float(figure)) <= max(0.5000001 * 10**-decimals, 0.002 * value)
