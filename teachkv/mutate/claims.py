"""Claims: `@pytest.mark.kills("guard/name", ...)` on a test says that it goes red under that mutant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from teachkv.mutate.errors import Problem
from teachkv.mutate.registry import Registry

MARK = "kills"
MARK_LINE = "kills(id, ...): this test goes red under the mutant 'guard/name' (see pytest --mutate)"


@dataclass
class Claim:
    """One mark and the tests it stands on. A mark on a parametrized test holds when one of its cases kills."""

    mutant: str
    name: str
    items: list[pytest.Item] = field(default_factory=list)


def find_claims(items: Iterable[pytest.Item]) -> dict[str, list[Claim]]:
    """Mutant id -> claims, in collection order."""
    found: dict[tuple[int, str], Claim] = {}
    for item in items:
        for node, mark in item.iter_markers_with_node(MARK):
            for mutant in mark.args:
                name = item.nodeid.partition("[")[0] if node is item else node.nodeid
                found.setdefault((id(mark), mutant), Claim(mutant, name)).items.append(item)
    claims: dict[str, list[Claim]] = {}
    for claim in found.values():
        claims.setdefault(claim.mutant, []).append(claim)
    return claims


def unknown_claims(registry: Registry, items: Iterable[pytest.Item]) -> list[Problem]:
    """Marks that name no mutant, name none at all, or claim to kill a decoy."""
    problems = []
    for item in items:
        for mark in item.iter_markers(MARK):
            texts = [_fault(registry, mutant) for mutant in mark.args] or ["names no mutant"]
            if mark.kwargs:
                texts.append("takes no keywords")
            line = (item.reportinfo()[1] or 0) + 1
            problems += [Problem(Path(item.path), line, f"{MARK} mark of {item.name} {text}") for text in texts if text]
    return list(dict.fromkeys(problems))


def _fault(registry: Registry, mutant: object) -> str | None:
    if not isinstance(mutant, str) or mutant not in registry.mutants:
        return f"names the unknown mutant {mutant!r}; see --mutate-list"
    if registry.mutants[mutant].words.decoy:
        return f"claims the decoy {mutant!r}, which must survive"
    return None
