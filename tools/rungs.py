"""The rungs of a kernel: ways to do the same that were timed side by side, from the records in docs/evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# The names of lines in a record's "variants", per op: (case, variant) or (variant, case) as named groups.
FORMS = {
    "attention_decode_ragged": r".*attention_decode (?P<variant>\d per block) (?P<case>B=\d+( at)?( \w+)?),",
    "linear": r"(?P<kind>tiles|rows) (?P<case>(q|up|down) rows \d+) (?P<variant>.*)",
    "lm_head": r"(?P<kind>tiles|rows) (?P<case>head rows \d+) (?P<variant>.*)",
}
WORDS = {"head": "lm_head", "q": "[896, 896]", "up": "[4864, 896]", "down": "[896, 4864]"}
SHOWN = 6  # rungs per case: the fastest ones, and the slowest


def rungs(op: str, records: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown: one table per case, the fastest first; nothing for an op that was only built one way."""
    found = [(record, cases(op, record)) for record in records if "variants" in record]
    for record, by_case in found:
        if not by_case:
            continue
        machine = record["machine"] if isinstance(record["machine"], str) else record["machine"].get("device", "")
        about = f"{machine}; record {record['file']}".removeprefix("; ")
        yield from ("## Rungs", "", f"Ways to do the same, timed side by side ({about}). What each step changed, also")
        yield from ("where it lost, is told in [the story of the record](../evidence/raw-kernels-h200.md#rungs).", "")
        for case, timed in by_case.items():
            yield from table(case, sorted(timed, key=lambda pair: pair[1]))


def cases(op: str, record: dict[str, Any]) -> dict[str, list[tuple[str, float]]]:
    """(variant, microseconds) by case, as recorded."""
    told: dict[str, list[tuple[str, float]]] = {}
    for line in record["variants"]["lines"]:
        match = re.match(FORMS.get(op, r"(?!)"), line["name"])
        if match:
            groups = match.groupdict()
            words = groups["case"].split()
            case = " ".join([WORDS.get(words[0], words[0]), *words[1:]])
            told.setdefault(case, []).append((f"{groups.get('kind') or ''} {groups['variant']}".strip(), line["us"]))
    return told


def table(case: str, timed: list[tuple[str, float]]) -> Iterator[str]:
    """The rungs of one case, with a bar each."""
    best, worst = timed[0][1], timed[-1][1]
    kept = timed if len(timed) <= SHOWN else [*timed[: SHOWN - 1], timed[-1]]
    left = len(timed) - len(kept)
    yield from (
        f"**{case}**" + (f" ({left} more in between)" if left else ""),
        "",
        "| variant | us | |",
        "|---|--:|---|",
    )
    for variant, us in kept:
        bar = f'<span class="tkv-bar" style="width: {10 * us / worst:.2f}em"></span>'
        yield f"| {variant} | {us} | {bar} {us / best:.2f} x |"
    yield ""
