"""What was measured of an op, as tables: from the records in docs/evidence, and nothing where there is no record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cuda_kernels.registry import OPS

EVIDENCE = Path(__file__).resolve().parent.parent / "docs" / "evidence"


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All JSON records of docs/evidence, by name; each is marked with its file."""
    found = [(file, json.loads(file.read_text())) for file in sorted(folder.glob("*.json"))]
    return [data | {"file": file.name} for file, data in found if isinstance(data, dict)]


def figures(op: str, records: list[dict[str, Any]]) -> Iterator[str]:
    """Tables of what was measured; nothing where there is no record."""
    times = [(record, line) for record in records for line in lines_of(record, "time") if op_of(line["name"]) == op]
    errors = [
        (record, key.partition(" ")[2], value)
        for record in records
        for key, value in record.get("check", {}).get("worst", {}).items()
        if key.partition(" ")[0] == op
    ]
    if times:
        yield from (
            "## Measured",
            "",
            "| telling | what | us | GB/s | TFLOP/s | cuBLAS, us | record |",
            "|---|---|--:|--:|--:|--:|---|",
        )
        for record, line in times:
            cells = [line.get(key, "") for key in ("us", "GB/s", "TFLOP/s", "cublas_us")]
            yield f"| {telling_of(record)} | {line['name']} | {' | '.join(map(str, cells))} | {record['file']} |"
        yield ""
    if errors:
        yield from ("## Against float64", "", "| telling | dtype | largest error | record |", "|---|---|--:|---|")
        yield from (f"| {telling_of(r)} | {dtype} | {value:.1e} | {r['file']} |" for r, dtype, value in errors)
        yield ""
        yield "The error is ||out - ref|| / ||ref|| over one call, the largest of all calls with fresh random inputs."
        yield ""


def lines_of(record: dict[str, Any], part: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = record.get(part, {}).get("lines", [])
    return lines


def op_of(name: str) -> str | None:
    """The op that a line of a record is about: "Qwen2.5-0.5B attention_decode B=1" -> attention_decode_ragged."""
    words = name.split()
    return next((op for op in OPS if any(w == op or ("_" in w and op.startswith(w)) for w in words)), None)


def telling_of(record: dict[str, Any]) -> str:
    return str(record.get("telling", "raw"))
