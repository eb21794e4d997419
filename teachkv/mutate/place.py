"""Where a card's `-` lines are in the code, and the source text with its `+` lines instead."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from teachkv.mutate.cards import Cards, Guard, Mutant, read_inline, read_sidecar
from teachkv.mutate.errors import CardError, DriftError, NoChangeError
from teachkv.mutate.lexers import Token, cuda_comments, cuda_tokens, python_comments, python_tokens, same_tokens
from teachkv.mutate.survivors import Note, take_notes

CUDA_SUFFIXES = (".cu", ".cuh", ".h", ".cpp")


@dataclass(frozen=True)
class Span:
    """Whole lines `first..last` of a file, counted from 1."""

    path: Path
    first: int
    last: int


@dataclass
class SourceFile:
    """One source file, read once: its text, tokens and cards (its sidecar's among them)."""

    path: Path
    text: str
    tokens: list[Token] = field(repr=False)
    cards: Cards
    notes: list[Note] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> SourceFile:
        """Reads `path` and, if there is one, `<path>.mutants`."""
        text = path.read_text(encoding="utf-8")
        cuda = path.suffix in CUDA_SUFFIXES
        cards = read_inline(path, cuda_comments(text) if cuda else python_comments(text))
        notes: list[Note] = []
        sidecar = path.with_name(path.name + ".mutants")
        if sidecar.exists():
            more, notes = _read_sidecar(sidecar, path)
            cards.mutants += more.mutants
            cards.errors += more.errors
        return cls(path, text, cuda_tokens(text) if cuda else python_tokens(text), cards, notes)

    @property
    def is_python(self) -> bool:
        return self.path.suffix == ".py"

    def lex(self, lines: tuple[str, ...]) -> list[Token]:
        return _lex(lines, self.is_python)

    def locate(self, mutant: Mutant, guards: dict[str, Guard]) -> Span:
        """The lines that the `-` lines stand for. Raises DriftError when the code below differs from them."""
        end = mutant.block_end
        if end is None:
            guard = guards.get(mutant.guard)
            if guard is None or guard.path != self.path:
                text = f"mutant[{mutant.id}]: no guard[{mutant.guard}] in {self.path.name}"
                raise CardError(mutant.card_path, mutant.line, text)
            end = guard.block_end
        start = bisect_right(self.tokens, end, key=lambda token: token.line)
        old = self.lex(mutant.old)
        code = self.tokens[start : start + len(old)]
        # guard[card-drift]: a card must be about the code it stands above
        # origin: imp#1859, where 4 of 56 anchors were dead after a month
        # mutant[card-drift/place-only]:
        #   - if not old or not same_tokens(old, code):
        #   + if not old or not code:
        if not old or not same_tokens(old, code):
            found = _first_difference(old, code)
            text = f"mutant[{mutant.id}] drifted: {found}; make its '-' lines the code below again"
            raise DriftError(mutant.card_path, mutant.line, text)
        rest = self.tokens[start + len(old) : start + len(old) + 1]
        # guard[card-whole-lines]: a rewrite that ends within a line would drop the rest of that line
        # mutant[card-whole-lines/removed]:
        #   - if rest and rest[0].line == code[-1].end_line:
        #   + if not code:
        if rest and rest[0].line == code[-1].end_line:
            text = f"mutant[{mutant.id}] drifted: the code goes on with '{rest[0].text}' on the line where '-' ends"
            raise DriftError(mutant.card_path, mutant.line, text)
        return Span(self.path, code[0].line, code[-1].end_line)

    def rewrite(self, placed: Sequence[tuple[Mutant, Span]], pad: bool = True) -> str:
        """The text with each span replaced; `pad` adds blank lines so that the lines below keep their numbers."""
        lines = self.text.splitlines()
        below = len(lines) + 1
        for mutant, span in sorted(placed, key=lambda pair: -pair[1].first):
            if span.last >= below:
                text = f"mutant[{mutant.id}] and its partner change the same lines"
                raise CardError(mutant.card_path, mutant.line, text)
            below = span.first
            lines[span.first - 1 : span.last] = self._new_lines(mutant, span, pad)
        return "\n".join(lines) + "\n"

    def _new_lines(self, mutant: Mutant, span: Span, pad: bool) -> list[str]:
        if [token.text for token in self.lex(mutant.old)] == [token.text for token in self.lex(mutant.new)]:
            raise NoChangeError(mutant.card_path, mutant.line, f"mutant[{mutant.id}] changes no token")
        first = self.text.splitlines()[span.first - 1]
        margin = first[: len(first) - len(first.lstrip())]
        new = [(margin + line).rstrip() for line in _dedent(mutant.new, mutant.old)]
        return new + [""] * (span.last - span.first + 1 - len(new)) if pad else new


@cache  # a card is asked for its tokens a dozen times in a run
def _lex(lines: tuple[str, ...], python: bool) -> list[Token]:
    text = "\n".join(_dedent(lines, lines)) + "\n"
    return python_tokens(text) if python else cuda_tokens(text)


def _read_sidecar(sidecar: Path, source: Path) -> tuple[Cards, list[Note]]:
    """Its cards and its notes on survivors; nothing of it but the error when a note cannot be read."""
    try:
        text, notes = take_notes(source, sidecar, sidecar.read_text(encoding="utf-8"))
    except CardError as error:
        return Cards(errors=[error]), []
    return read_sidecar(sidecar, source, text), notes


def _dedent(lines: tuple[str, ...], like: tuple[str, ...]) -> list[str]:
    """`lines` less the indentation of the first line of `like` that is not blank."""
    model = next((line for line in like if line.strip()), "")
    width = len(model) - len(model.lstrip())
    return [line[width:] if not line[:width].strip() else line.lstrip() for line in lines]


def _first_difference(old: list[Token], code: list[Token]) -> str:
    for index, token in enumerate(old):
        if index >= len(code):
            return f"the card says '{token.text}', the file ends"
        if code[index].text != token.text:
            return f"the card says '{token.text}', line {code[index].line} says '{code[index].text}'"
    return "the card's lines are indented otherwise than the code"
