"""The canary: `raise AssertionError` planted at the head of a function that a test is known to enter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from teachkv.mutate.place import Span
from teachkv.mutate.standins import is_kernel
from teachkv.mutate.swap import Plan
from teachkv.mutate.task import KILL, Task
from teachkv.mutate.workbench import Workbench

TRIES = 5


def quick_killers(bench: Workbench) -> list[pytest.Item]:
    """For each way of applying the killers that take least time, as many as there are tries: to be traced.

    One list for both ways could hold killers of one way only, and the other's canary would have no place.
    """
    found: dict[str, pytest.Item] = {}
    for cold in (False, True):
        names = [name for name in bench.claims if name in bench.plans and _is_cold(bench, name) is cold]
        claims = [claim.items for name in names for claim in bench.claims[name]]
        passing = [items for items in claims if all(bench.baseline.passed(item.nodeid) for item in items)]
        passing.sort(key=lambda items: bench.baseline.seconds([item.nodeid for item in items]))
        found |= {item.nodeid: item for items in passing[:TRIES] for item in items}
    return list(found.values())


def _is_cold(bench: Workbench, name: str) -> bool:
    plan = bench.plans[name]
    return isinstance(plan, Plan) and bool(plan.cold or bench.spawns_because)


def canary_tasks(bench: Workbench) -> list[tuple[str, list[Task]]]:
    """For each way of applying that this run uses, up to five tests with a canary on their path."""
    cold = [bool(plan.cold or bench.spawns_because) for plan in bench.plans.values() if isinstance(plan, Plan)]
    ways = [how for how, used in (("hot", not all(cold)), ("cold", any(cold))) if used]
    found = {how: list(islice(_tasks(bench, how == "cold"), TRIES)) for how in ways}
    return [(how, tasks) for how, tasks in found.items() if tasks]


def _tasks(bench: Workbench, cold: bool) -> Iterator[Task]:
    for mutant in bench.mutants:
        span = bench.spans[mutant.id]
        reaching = bench.baseline.reaching(mutant.id, span)[:1]
        text = plant(span) if reaching else None
        if text is None:
            continue
        plan = bench.plan_texts({span.path: text})
        if cold or not plan.cold:
            yield Task("canary", reaching, bench.budget(reaching, cold), plan, cold=cold, stop_at=KILL)


def plant(span: Span) -> str | None:
    """The file's text with the canary in the function around the span; None at module or class level."""
    path: Path = span.path
    text = path.read_text(encoding="utf-8")
    if is_kernel(path):
        return text + "\n#error canary\n"
    inside = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body[0].lineno <= span.first <= (node.end_lineno or 0)
        and node.body[0].lineno > node.lineno
    ]
    if not inside:
        return None
    first = max(inside, key=lambda node: node.lineno).body[0]
    lines = text.splitlines()
    start = min([first.lineno, *(item.lineno for item in getattr(first, "decorator_list", []))])
    lines.insert(start - 1, " " * first.col_offset + "raise AssertionError('canary')")
    return "\n".join(lines) + "\n"
