"""The words after a mutant's colon."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from teachkv.mutate.errors import CardError

_UNPAIRED = re.compile(r"(?:(.*),\s*)?unpaired\b:?\s*(.*)")
_WITH = re.compile(r"with\s+(\S+/\S+)")


@dataclass(frozen=True)
class Words:
    """`partner` is the mutant applied together with this one; `unpaired` the reason why no test can kill it."""

    decoy: bool = False
    cold: bool = False
    sync: bool = False
    partner: str | None = None
    unpaired: str | None = None


def read_words(path: Path, line: int, text: str) -> Words:
    """`decoy, cold, with a/b, unpaired: reason` -> Words. An unknown word is a CardError."""
    text, unpaired = text.strip(), None
    tail = _UNPAIRED.fullmatch(text)
    if tail:
        text, unpaired = tail.group(1) or "", tail.group(2)
        if not unpaired:
            raise CardError(path, line, "unpaired without a reason; write 'unpaired: why no test can kill it'")
    flags: set[str] = set()
    partner = None
    for word in filter(None, (part.strip() for part in text.split(","))):
        found = _WITH.fullmatch(word)
        if found:
            partner = found.group(1)
        elif word in ("decoy", "cold", "sync"):
            flags.add(word)
        else:
            known = "decoy, cold, sync, with guard/name, unpaired: reason"
            raise CardError(path, line, f"unknown word '{word}' on a card; known are: {known}")
    if "decoy" in flags and unpaired:
        raise CardError(path, line, "a decoy has no killer anyway; drop 'unpaired'")
    return Words("decoy" in flags, "cold" in flags, "sync" in flags, partner, unpaired)
