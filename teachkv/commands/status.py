"""Status lines: for the person, not for the pipe, and never inside an answer that is read in the same place."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from teachkv.commands.parsing import say


class StatusLines:
    """Takes one line at a time and writes it to stderr. `quiet` drops them all.

    Where stdout and stderr end in one place (a terminal, or a pipe as with `2>&1 | less`), lines that come while an
    answer is being written wait for its end.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet, self.writing = quiet, False
        self.waiting: list[str] = []

    def __call__(self, line: str) -> None:
        if self.quiet:
            return
        line = brief(line)
        if self.writing:
            self.waiting.append(line)
        else:
            say(line)

    @contextmanager
    def answers(self) -> Iterator[None]:
        """While answers are written. However this ends, no line that waited is lost."""
        self.writing = one_place()
        try:
            yield
        finally:
            self.writing = False
            self.between()

    def between(self) -> None:
        """The cursor stands at the start of a line: say what has waited."""
        lines, self.waiting = self.waiting, []
        for line in lines:
            say(line)


def one_place() -> bool:
    """Whether whoever reads the answers reads the status lines between them."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        return True
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):  # a stand-in for a stream has no descriptor
        return sys.stdout is sys.stderr


def brief(line: str) -> str:
    """The path line without what stands in brackets: `teachkv inspect` and `LLM.stats()` tell all of it."""
    return re.sub(r" \([^()]*\)", "", line) if line.startswith("path: ") else line
