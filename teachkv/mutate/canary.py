"""The canary: `raise AssertionError` planted at the head of a function that a test is known to enter."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from teachkv.mutate.place import Span
from teachkv.mutate.task import KILL, Task

if TYPE_CHECKING:
    from teachkv.mutate.campaign import Campaign

TRIES = 5


def canary_tasks(campaign: Campaign) -> list[tuple[str, list[Task]]]:
    """For each way of applying that this run uses, up to five tests with a canary on their path."""
    wanted: dict[str, list[Task]] = {}
    for mutant in campaign.mutants:
        plan = campaign.plans[mutant.id]
        span = campaign.spans[mutant.id]
        reaching = campaign.baseline.reaching(mutant.id, span)
        if isinstance(plan, SyntaxError) or not reaching:
            continue
        how = "cold" if plan.cold or campaign.spawns_because else "hot"
        text = plant(span)
        if text is None or len(wanted.get(how, [])) >= TRIES:
            continue
        planted = campaign.plan_texts({span.path: text})
        if how == "hot" and planted.cold:
            continue
        planted.cold = planted.cold or plan.cold
        budget = campaign.budget(reaching[:1]) + (15.0 if how == "cold" else 0.0)
        task = Task("canary", reaching[:1], budget, planted, cold=how == "cold", stop_at=KILL)
        wanted.setdefault(how, []).append(task)
    return list(wanted.items())


def plant(span: Span) -> str | None:
    """The file's text with the canary in the function around the span; None at module or class level."""
    path: Path = span.path
    text = path.read_text(encoding="utf-8")
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
