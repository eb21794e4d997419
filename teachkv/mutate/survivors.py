"""Notes on automatic mutants that survive: why no test can kill them. They stand in a sidecar, among the cards:

    survivor[postcondition]: sorted lengths differ exactly when the first is below the last
      - if lengths[0] != lengths[-1]:
      + if lengths[0] < lengths[-1]:

The two lines are those that `pytest --mutate --mutate-auto` shows. A note counts for the mutant that changes these
words so; a note of a mutant that does not exist is an error, and so is one of a mutant that a test kills.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from teachkv.mutate.errors import CardError

_HEAD = re.compile(r"survivor\[([a-z0-9][a-z0-9._-]*)\]:\s*(.*)")
_CHANGE = re.compile(r"\s+([-+]) (.+)")


@dataclass(frozen=True)
class Note:
    """`why` the automatic mutant of `guard` that makes `new` of `old` survives; it stands at `card_path:line`."""

    guard: str
    why: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    path: Path
    card_path: Path
    line: int


def take_notes(source: Path, sidecar: Path, text: str) -> tuple[str, list[Note]]:
    """The sidecar's text with blank lines in place of the notes, and the notes. Raises CardError."""
    lines = text.splitlines()
    notes: list[Note] = []
    index = 0
    while index < len(lines):
        if not lines[index].startswith("survivor"):
            index += 1
            continue
        end = index + 1
        while end < len(lines) and _CHANGE.fullmatch(lines[end]):
            end += 1
        notes.append(_read(source, sidecar, index + 1, lines[index:end]))
        lines[index:end] = [""] * (end - index)
        index = end
    return "\n".join(lines) + "\n", notes


def _read(source: Path, sidecar: Path, number: int, lines: list[str]) -> Note:
    head = _HEAD.fullmatch(lines[0])
    change: dict[str, list[str]] = {"-": [], "+": []}
    for line in lines[1:]:
        if found := _CHANGE.fullmatch(line):
            change[found.group(1)].append(found.group(2))
    if head is None or not head.group(2) or not change["-"] or not change["+"]:
        text = "unreadable note; write 'survivor[guard]: why no test can kill it', then '  - old' and '  + new' lines"
        raise CardError(sidecar, number, text)
    old, new = tuple(change["-"]), tuple(change["+"])
    return Note(head.group(1), head.group(2).strip(), old, new, source, sidecar, number)
