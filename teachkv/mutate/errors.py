"""What can be wrong with cards, claims and a run: one line that names what, where and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class MutateError(Exception):
    """A mistake of the user: a bad setting, an unknown id, a report path that cannot be written."""


class CardError(MutateError):
    """A card that cannot be read, placed or applied."""

    def __init__(self, path: Path, line: int, text: str) -> None:
        self.path, self.line, self.text = path, line, text
        super().__init__(f"{path}:{line}: {text}")


class DriftError(CardError):
    """The `-` lines of a card are not the code below it any more."""


class NoChangeError(CardError):
    """A card whose rewrite means the same: same tokens, or same bytecode."""


class NotAppliedError(MutateError):
    """A mutant was compiled, but no live function took it and no import was served: its verdict would be a lie."""


@dataclass(frozen=True)
class Problem:
    """One finding of a check that goes on after the first: a file may hold several broken cards."""

    path: Path
    line: int
    text: str

    def show(self, root: Path) -> str:
        """`path:line: text`, the path relative to `root` where it lies below it."""
        place = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
        return f"{place}:{self.line}: {self.text}"
