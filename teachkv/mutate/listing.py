"""What `--mutate-list` and `--mutate-show` print."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from teachkv.mutate.called import as_called
from teachkv.mutate.cards import Mutant
from teachkv.mutate.claims import Claim
from teachkv.mutate.registry import Registry, relative

Claims = dict[str, list[Claim]]
MARGIN = 3  # lines of a diff above and below the change
_HUNK = re.compile(r"([-+])(\d+)")


def list_lines(registry: Registry, claims: Claims) -> Iterator[str]:
    """One line per guard with its reason, one per mutant with its words and killers, then the totals."""
    for guard in registry.guards.values():
        yield f"{guard.id}  ({relative(registry.root, guard.path)}:{guard.line})  {guard.why}"
        for mutant in registry.mutants.values():
            if mutant.guard == guard.id:
                yield f"  {mutant.id:<42} {_who(mutant, claims)}"
    mutants = registry.mutants.values()
    decoys = sum(mutant.words.decoy for mutant in mutants)
    yield f"{len(registry.guards)} guards, {len(mutants)} mutants ({decoys} decoys)"


def show_lines(registry: Registry, claims: Claims, mutant_id: str, paths: Sequence[str] = ()) -> Iterator[str]:
    """The whole story of one mutant; `paths` were given to pytest and go into the printed command.

    Raises MutateError for an unknown id, CardError for a drifted card.
    """
    mutant = registry.mutant(mutant_id)
    guard = registry.guards[mutant.guard]
    yield f"{mutant.id}: {guard.why}"
    if guard.origin:
        yield f"origin: {guard.origin}"
    yield f"killers: {_who(mutant, claims)}"
    yield from diff_lines(registry, mutant)
    yield f"see it happen: {as_called(f'--mutate-with={mutant.id}', *paths)}"


def diff_lines(registry: Registry, mutant: Mutant) -> Iterator[str]:
    """A unified diff of the file under the mutant. Only the span and its margin are compared, whatever the file."""
    name = relative(registry.root, mutant.path)
    file, span = registry.file(mutant.path), registry.span(mutant)
    old, new = file.text.splitlines(), file.rewrite([(mutant, span)], pad=False).splitlines()
    above, below = max(0, span.first - 1 - MARGIN), max(0, len(old) - span.last - MARGIN)
    old, new = old[above : len(old) - below], new[above : len(new) - below]
    for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="", n=MARGIN):
        yield _HUNK.sub(lambda found: f"{found[1]}{int(found[2]) + above}", line) if line.startswith("@@") else line


def _who(mutant: Mutant, claims: Claims) -> str:
    if mutant.words.decoy:
        return "decoy: must survive"
    if mutant.words.unpaired:
        return f"unpaired: {mutant.words.unpaired}"
    names = [claim.name for claim in claims.get(mutant.id, [])]
    return ", ".join(names) if names else "no killer among the collected tests"
