"""Cards: how a guard and its mutants are declared beside the code, and how that text is read.

Inline, in `.py` (in `.cu`, `.cuh`, `.h` and `.cpp` the same with `//` for `#`)::

    # guard[postcondition]: no batch of unequal lengths may leave clone_in
    # origin: the seed document, section 4
    # mutant[postcondition/removed]:
    #   - ensure_uniform_lengths(rows)
    #   + pass
    ensure_uniform_lengths(rows)

- `guard[id]: why`. An id is lower-case letters, digits, `-`, `_` and `.`; it is unique in the project. The reason is
  required; plain comment lines below go on with it. `origin: text` is optional (a public report, the seed document).
- `mutant[guard/name]: words`. The guard must be declared somewhere; a mutant block may also stand elsewhere in the
  code without repeating the guard line. `words` are separated by commas, all optional:
    `decoy`              a rewrite that keeps the behaviour; it must survive
    `cold`               never swap in place: run it in a fresh interpreter
    `sync`               a dropped barrier; only the race lane can judge it
    `with guard/other`   applied together with that mutant
    `unpaired: reason`   no test can kill it, and why; comes last and takes the rest of the line
- Then `- old` and `+ new` lines: the mark, one space, the code with its relative indentation. The `-` lines are
  token-equal to the code directly below the comment block and cover whole lines. Comments and line breaks in the code
  are free. `+` lines get the indentation of the code; no `+` line at all deletes it.
- The card block is one run of comment lines with nothing foreign after the first mutant line. At most two mutants
  stand in one block.

Sidecar, in `<file name>.mutants` beside the file (`batch.py` -> `batch.py.mutants`), for the third mutant on::

    # a line that starts with `#` is a remark
    mutant[postcondition/late]: cold
      - ensure_uniform_lengths(rows)
      + ensure_uniform_lengths(rows[1:])

The part before the slash names the guard, and the `-` lines are the code under that guard's line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from teachkv.mutate.errors import CardError
from teachkv.mutate.lexers import Comment
from teachkv.mutate.words import Words, read_words

INLINE_LIMIT = 2
_ID = r"[a-z0-9][a-z0-9._-]*"
_LOOKS_LIKE_CARD = re.compile(r"\s*(guard|mutant)\s*\[")
_GUARD = re.compile(rf" ?guard\[({_ID})\]:\s*(.*)")
_MUTANT = re.compile(rf"\s*mutant\[({_ID}/{_ID})\]:\s*(.*)")
_ORIGIN = re.compile(r"\s*origin:\s*(.+)")
_CHANGE = re.compile(r"\s+([-+])(?: (.*))?$")


@dataclass(frozen=True)
class Mutant:
    """One declared rewrite. `path` is the source file it changes, `card_path:line` where the card stands.

    `block_end` is the last line of the comment block above the code; None for a sidecar card, which is placed by
    its guard.
    """

    id: str
    words: Words
    old: tuple[str, ...]
    new: tuple[str, ...]
    path: Path
    card_path: Path
    line: int
    block_end: int | None = None
    automatic: bool = False

    @property
    def guard(self) -> str:
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        return self.id.partition("/")[2]


@dataclass(frozen=True)
class Guard:
    """Why a check exists. `block_end` is the last comment line above the guarded code."""

    id: str
    why: str
    origin: str | None
    path: Path
    line: int
    block_end: int


@dataclass
class Cards:
    """What one source file and its sidecar declare."""

    guards: list[Guard] = field(default_factory=list)
    mutants: list[Mutant] = field(default_factory=list)
    errors: list[CardError] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (self.guards or self.mutants or self.errors)


def read_inline(path: Path, comments: Iterable[Comment]) -> Cards:
    """Cards among the comments of a source file; a block with a mistake is reported and left out."""
    cards = Cards()
    alone: list[Comment] = []
    for comment in comments:
        if comment.alone:
            alone.append(comment)
        elif _LOOKS_LIKE_CARD.match(comment.text):
            cards.errors.append(CardError(path, comment.line, "a card behind code on its line; put it above"))
    for block in _blocks(alone):
        starts = [i for i, comment in enumerate(block) if _LOOKS_LIKE_CARD.match(comment.text)]
        if not starts:
            continue
        try:
            guards, mutants = _read_block(path, block[starts[0] :])
        except CardError as error:
            cards.errors.append(error)
            continue
        cards.guards += guards
        cards.mutants += mutants
    return cards


def read_sidecar(path: Path, source: Path, text: str) -> Cards:
    """Cards of `<file>.mutants`. All of the file is refused at its first mistake."""
    cards = Cards()
    lines = [
        Comment(line, number)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    try:
        cards.mutants = _read_mutants(source, path, lines, block_end=None)
    except CardError as error:
        cards.errors.append(error)
    return cards


def _blocks(comments: list[Comment]) -> Iterable[list[Comment]]:
    """Runs of comments on consecutive lines."""
    block: list[Comment] = comments[:1]
    for before, comment in pairwise(comments):
        if comment.line != before.line + 1:
            yield block
            block = []
        block.append(comment)
    if block:
        yield block


def _read_block(path: Path, block: list[Comment]) -> tuple[list[Guard], list[Mutant]]:
    """One comment block: at most one guard, then its mutants."""
    end = block[-1].line
    first = next((i for i, comment in enumerate(block) if _is_mutant(comment)), len(block))
    head, body = block[:first], block[first:]
    guards = [_read_guard(path, head, end)] if head else []
    mutants = _read_mutants(path, path, body, end)
    if len(mutants) > INLINE_LIMIT:
        text = f"{len(mutants)} cards above one guard; keep {INLINE_LIMIT} and move the rest to {path.name}.mutants"
        raise CardError(path, block[0].line, text)
    for mutant in mutants:
        if guards and mutant.guard != guards[0].id:
            text = f"mutant[{mutant.id}] stands under guard[{guards[0].id}]; its id must start with that guard's"
            raise CardError(path, mutant.line, text)
    return guards, mutants


def _is_mutant(comment: Comment) -> bool:
    match = _LOOKS_LIKE_CARD.match(comment.text)
    return match is not None and match.group(1) == "mutant"


def _read_guard(path: Path, head: list[Comment], end: int) -> Guard:
    match = _GUARD.fullmatch(head[0].text)
    if match is None or not match.group(2):
        raise CardError(path, head[0].line, "unreadable guard; write '# guard[lower-case-id]: reason'")
    why, origin = [match.group(2).strip()], None
    for comment in head[1:]:
        if _LOOKS_LIKE_CARD.match(comment.text):
            raise CardError(path, comment.line, "a second guard in one comment block; give it its own place")
        found = _ORIGIN.fullmatch(comment.text)
        if found:
            origin = found.group(1).strip()
        elif origin is None:
            why.append(comment.text.strip())
    return Guard(match.group(1), " ".join(why), origin, path, head[0].line, end)


def _read_mutants(source: Path, card_path: Path, lines: list[Comment], block_end: int | None) -> list[Mutant]:
    """Mutant headers, each followed by its change lines."""
    mutants: list[Mutant] = []
    index = 0
    while index < len(lines):
        head = lines[index]
        match = _MUTANT.fullmatch(head.text)
        if match is None:
            text = "not a card line; write 'mutant[guard/name]: words', then '  - old' and '  + new' lines"
            raise CardError(card_path, head.line, text)
        index += 1
        change: dict[str, list[str]] = {"-": [], "+": []}
        while index < len(lines) and (line := _CHANGE.fullmatch(lines[index].text)):
            change[line.group(1)].append(line.group(2) or "")
            index += 1
        if not any(old.strip() for old in change["-"]):
            raise CardError(card_path, head.line, f"mutant[{match.group(1)}] has no '- old' line")
        words = read_words(card_path, head.line, match.group(2))
        old, new = tuple(change["-"]), tuple(change["+"])
        mutants.append(Mutant(match.group(1), words, old, new, source, card_path, head.line, block_end))
    return mutants
