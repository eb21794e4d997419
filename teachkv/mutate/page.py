"""`--mutate-report=html:PATH`: one file that needs no other host. A plain table first, the source browser below."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path

from teachkv.mutate.registry import Registry
from teachkv.mutate.report import Report, term_lines
from teachkv.mutate.stryker import stryker_data
from teachkv.mutate.verdicts import MutantResult

BUNDLE = Path(__file__).with_name("vendor") / "mutation-test-elements.js"

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #c62828; --dim: #888; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .5rem; text-align: left; vertical-align: bottom; }
thead .test { writing-mode: vertical-rl; transform: rotate(180deg); font-weight: normal; max-height: 18rem; }
td.cell { text-align: center; }
.kill { color: var(--good); } .bad { color: var(--bad); } .dim { color: var(--dim); }
pre { white-space: pre-wrap; }
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Mutants</title><link rel="icon" href="data:,"><style>{style}</style></head><body>
<h1>Mutants</h1>
<p>{total}</p><p>{controls}</p>
<h2>Guards and tests</h2>
<p>&#9679; killed it, as claimed &nbsp; &#9675; killed it, not claimed &nbsp; <span class="dim">&middot;</span> ran and
did not &nbsp; empty: not run on it. Run with <code>--mutate-matrix</code> to fill every place.</p>
<div class="wide"><table><thead><tr><th>guard</th><th>mutant</th><th>verdict</th>{heads}</tr></thead>
<tbody>
{rows}
</tbody></table></div>
<h2>Source</h2>
<mutation-test-report-app title-postfix="Mutants"></mutation-test-report-app>
<script>{bundle}</script>
<script>document.querySelector("mutation-test-report-app").report = {data};</script>
</body></html>
"""


def page(report: Report, registry: Registry) -> str:
    """The whole page as text."""
    tests = sorted({nodeid for result in report.results for nodeid, outcome in result.tests.items()})
    lines = [line for line in term_lines(report) if not line.startswith(" ")]
    controls = next((line for line in lines if line.startswith("controls")), "")
    # "<" ends up in no script text, so no value can close the script element.
    data = json.dumps(stryker_data(report, registry)).replace("<", "\\u003c")
    return PAGE.format(
        style=STYLE,
        total=escape(lines[-1]),
        controls=escape(controls),
        heads="".join(f'<th class="test">{escape(name)}</th>' for name in tests),
        rows="\n".join(_rows(report, registry, tests)),
        bundle=BUNDLE.read_text(encoding="utf-8"),
        data=data,
    )


def _rows(report: Report, registry: Registry, tests: list[str]) -> Iterator[str]:
    before = ""
    for result in report.results:
        guard, _, name = result.id.partition("/")
        known = registry.guards.get(guard)
        why = escape(known.why) if known else ""
        head = f'<b>{escape(guard)}</b><br><span class="dim">{why}</span>' if guard != before else ""
        before = guard
        state = "kill" if result.holds(report.strict) else "bad"
        notes = "<br>".join(escape(line) for line in [*result.faults, *result.explanation.splitlines()])
        detail = f"<details><summary>{escape(name)}</summary><pre>{escape(result.diff)}</pre>{notes}</details>"
        verdict = f"{result.verdict}{' (decoy)' if result.decoy else ''}"
        cells = "".join(_cell(result, test) for test in tests)
        yield f'<tr><td>{head}</td><td>{detail}</td><td class="{state}">{escape(verdict)}</td>{cells}</tr>'


def _cell(result: MutantResult, test: str) -> str:
    outcome = result.tests.get(test)
    if outcome is None:
        return "<td></td>"
    if outcome in ("assertion", "raise"):
        return f'<td class="cell kill">{"&#9679;" if test in result.claimed else "&#9675;"}</td>'
    return f'<td class="cell dim" title="{escape(outcome)}">&middot;</td>'
