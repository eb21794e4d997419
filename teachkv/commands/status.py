"""Status lines: for the person, not for the pipe, and never inside an answer that stands on the same terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from teachkv.commands.parsing import say


class StatusLines:
    """Takes one line at a time and writes it to stderr. `quiet` drops them all.

    Where stdout and stderr are one terminal, lines that come while an answer is being written wait for its end.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet, self.writing = quiet, False
        self.waiting: list[str] = []

    def __call__(self, line: str) -> None:
        if self.quiet:
            return
        if self.writing:
            self.waiting.append(line)
        else:
            say(line)

    @contextmanager
    def answers(self) -> Iterator[None]:
        """While answers are written. However this ends, no line that waited is lost."""
        self.writing = sys.stdout.isatty() and sys.stderr.isatty()
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
