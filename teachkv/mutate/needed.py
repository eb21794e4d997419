"""Which tests take part in a run. Thousands of tests twice would be too dear: a kill needs its claimed killers alone.

A test is needed when it claims a selected mutant. A decoy, or a mutant that says `unpaired`, needs the tests of the
files in which killers of its guard stand (or, without those, killers of any guard in the same source file); so does a
survivor, later and from the folders of those files. All tests are needed where none claims anything at all, for a
matrix, for second order and for automatic mutants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from _pytest.mark import MarkMatcher
from _pytest.mark.expression import Expression

from teachkv.mutate.cards import Mutant
from teachkv.mutate.claims import Claim
from teachkv.mutate.errors import MutateError
from teachkv.mutate.registry import Registry

Claims = dict[str, list[Claim]]


class Needed:
    """The collected tests, and the choice among them for some mutants."""

    def __init__(self, items: list[pytest.Item], registry: Registry, claims: Claims, option: Any) -> None:
        self._items, self._registry, self._claims = items, registry, claims
        self.everything = option.mutate_matrix or option.mutate_order == 2 or option.mutate_auto is not None

    def at_first(self, mutants: Iterable[Mutant]) -> list[pytest.Item]:
        """What the baseline runs before the first mutant, in collection order."""
        mutants = list(mutants)
        wanted = set(self.to_trace(mutants))
        for mutant in mutants:
            wanted |= {item.nodeid for claim in self._claims.get(mutant.id, []) for item in claim.items}
        return [item for item in self._items if item.nodeid in wanted]

    def to_trace(self, mutants: Iterable[Mutant]) -> dict[str, set[str]]:
        """Test -> mutants, for those mutants whose tests are chosen by what they reach: nobody claims their kill."""
        wanted: dict[str, set[str]] = {}
        for mutant in mutants:
            if self.everything or mutant.words.decoy or mutant.words.unpaired or mutant.id not in self._claims:
                for nodeid in self._beside(mutant, folders=False):
                    wanted.setdefault(nodeid, set()).add(mutant.id)
        return wanted

    def later(self, mutant: Mutant, traced: Mapping[str, set[str]]) -> list[pytest.Item]:
        """What else is tried on a mutant that its claimed killers did not kill: all that was not watched for it."""
        known = {nodeid for nodeid, mutants in traced.items() if mutant.id in mutants}
        wanted = self._beside(mutant, folders=True).difference(known)
        return [item for item in self._items if item.nodeid in wanted]

    def _beside(self, mutant: Mutant, folders: bool) -> set[str]:
        """Tests of the files (or folders) that hold killers of the guard, else of any guard in the same source."""
        if self.everything or not self._claims:
            return {item.nodeid for item in self._items}
        places = {item.path.parent if folders else item.path for item in self._killers(mutant)}
        return {item.nodeid for item in self._items if (item.path.parent if folders else item.path) in places}

    def _killers(self, mutant: Mutant) -> list[pytest.Item]:
        by_guard: list[pytest.Item] = []
        by_file: list[pytest.Item] = []
        for name, claims in self._claims.items():
            items = [item for claim in claims for item in claim.items]
            if name.partition("/")[0] == mutant.guard:
                by_guard += items
            elif name in self._registry.mutants and self._registry.mutants[name].path == mutant.path:
                by_file += items
        return by_guard or by_file


def without(items: list[pytest.Item], expression: str, config: pytest.Config) -> list[pytest.Item]:
    """The tests less those whose marks match `[tool.teachkv-mutate] without`; all of them when the user gave `-m`."""
    if not expression or config.option.markexpr:
        return items
    try:
        compiled = Expression.compile(expression)
    except SyntaxError as error:
        raise MutateError(f"[tool.teachkv-mutate] without = '{expression}': {error}; write it as for -m") from error
    return [item for item in items if not compiled.evaluate(MarkMatcher.from_markers(item.iter_markers()))]
