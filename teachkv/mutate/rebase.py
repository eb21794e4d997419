"""`--mutate-rebase`: for each drifted card, the card as it could be now, as a diff to read and apply."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from teachkv.mutate.cards import Mutant
from teachkv.mutate.errors import CardError, DriftError
from teachkv.mutate.place import SourceFile
from teachkv.mutate.registry import Registry, relative

_PIECES = re.compile(r"\w+|\s+|[<>=!:*/+\-%&|^@]+|[^\w\s]")
_CARD_LINE = re.compile(r"(\s*(?:#|//)?\s+)[-+](?: .*)?$")


def rebase_lines(registry: Registry) -> Iterator[str]:
    """A unified diff per card file, then one line for each card that must be mended by hand."""
    edits: dict[Path, list[str]] = {}
    by_hand: list[str] = []
    for file in registry.files:
        for mutant in sorted(file.cards.mutants, key=lambda mutant: -mutant.line):
            try:
                registry.span(mutant)
            except DriftError:
                lines = edits.setdefault(mutant.card_path, mutant.card_path.read_text(encoding="utf-8").splitlines())
                problem = _rebase(registry, file, mutant, lines)
                if problem:
                    by_hand.append(f"by hand: {relative(registry.root, mutant.card_path)}:{mutant.line}: {problem}")
            except CardError as error:
                by_hand.append(f"by hand: {error}")
    for path, lines in edits.items():
        name = relative(registry.root, path)
        old = path.read_text(encoding="utf-8").splitlines()
        yield from difflib.unified_diff(old, lines, f"a/{name}", f"b/{name}", lineterm="")
    yield from by_hand
    if not edits and not by_hand:
        yield "no card has drifted"


def _rebase(registry: Registry, file: SourceFile, mutant: Mutant, lines: list[str]) -> str:
    """Rewrites the card's lines in `lines`; otherwise says why not."""
    code = _code_below(registry, file, mutant)
    if code is None:
        return f"mutant[{mutant.id}]: the code below ends before the card does"
    new = merge_lines("\n".join(mutant.old), "\n".join(mutant.new), "\n".join(code))
    if new is None:
        return f"mutant[{mutant.id}]: the code changed where the mutant changes it"
    first = mutant.line  # the line after the header, counted from 0
    last = first
    while last < len(lines) and _CARD_LINE.fullmatch(lines[last]):
        last += 1
    found = _CARD_LINE.fullmatch(lines[first])
    assert found is not None
    change = [("-", line) for line in code] + [("+", line) for line in new.splitlines()]
    lines[first:last] = [f"{found.group(1)}{sign} {line}".rstrip() for sign, line in change]
    return ""


def _code_below(registry: Registry, file: SourceFile, mutant: Mutant) -> list[str] | None:
    """As many whole code lines below the card as its `-` lines are, without their common indentation."""
    end = mutant.block_end
    if end is None:
        end = registry.guards[mutant.guard].block_end
    start = next((token.line for token in file.tokens if token.line > end), None)
    if start is None:
        return None
    wanted = sum(bool(line.strip()) for line in mutant.old)
    heads = [token for token in file.tokens if token.line >= start and token.indent is not None]
    following = heads[wanted].line - 1 if len(heads) > wanted else len(file.text.splitlines())
    code = file.text.splitlines()[start - 1 : following if file.is_python else start - 1 + wanted]
    while code and (not code[-1].strip() or code[-1].lstrip().startswith(("#", "//"))):
        code.pop()
    margin = len(code[0]) - len(code[0].lstrip()) if code else 0
    return [line[margin:] for line in code] or None


def merge_lines(base: str, mine: str, theirs: str) -> str | None:
    """`theirs` with the changes that lead from `base` to `mine`; None where both changed the same piece."""
    old, left, right = (_PIECES.findall(text) for text in (base, mine, theirs))
    if not mine.strip() or mine.strip() == "pass":
        return mine
    changes = [op for op in difflib.SequenceMatcher(None, old, left, autojunk=False).get_opcodes() if op[0] != "equal"]
    place: dict[int, int] = {}
    for a, b, size in difflib.SequenceMatcher(None, old, right, autojunk=False).get_matching_blocks():
        for step in range(size):
            place[a + step] = b + step
    place[len(old)] = len(right)
    merged = list(right)
    for _, first, last, new_first, new_last in reversed(changes):
        kept = [place.get(index) for index in range(first, last)]
        if None in kept or first not in place:
            return None
        start = place[first]
        merged[start : start + (last - first)] = left[new_first:new_last]
    return "".join(merged)
