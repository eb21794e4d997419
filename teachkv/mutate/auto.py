"""Automatic mutants inside guard spans: what nobody thought of when writing the cards. They never gate a run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from teachkv.mutate.cards import Mutant
from teachkv.mutate.codetree import same_meaning
from teachkv.mutate.errors import CardError, MutateError
from teachkv.mutate.operators import variants
from teachkv.mutate.place import SourceFile, Span
from teachkv.mutate.registry import Registry, relative
from teachkv.mutate.survivors import Note
from teachkv.mutate.words import Words


@dataclass(frozen=True)
class _Piece:
    """A simple statement, or the header of a compound one."""

    statement: ast.stmt
    first: int
    last: int


def automatic_mutants(registry: Registry, mutants: list[Mutant], limit: int) -> list[Mutant]:
    """Mutants by rule for the spans of the declared ones; with a limit, an even choice of that many."""
    found: dict[tuple[str, tuple[str, ...], int], Mutant] = {}
    for mutant in mutants:
        file = registry.file(mutant.path)
        if not file.is_python or mutant.words.decoy:
            continue
        span = registry.span(mutant)
        for made in _in_span(file, mutant, span):
            found.setdefault((str(made.path), made.new, made.line), made)
    taken = list(found.values())
    texts = {_text(registry, mutant) for mutant in mutants}
    taken = [made for made in taken if _text(registry, made) not in texts]
    if limit and len(taken) > limit:
        taken = [taken[index * len(taken) // limit] for index in range(limit)]
    return taken


def without_mutant(registry: Registry) -> list[Note]:
    """Notes on survivors that fit no automatic mutant of their guard."""
    wrong: list[Note] = []
    for note in (note for file in registry.files for note in file.notes):
        declared = [mutant for mutant in registry.mutants.values() if mutant.guard == note.guard]
        try:
            made = automatic_mutants(registry, [mutant for mutant in declared if mutant.path == note.path], 0)
        except CardError:
            continue  # a drifted card, which the check of cards names
        if not any(_fits(registry.file(note.path), note, mutant) for mutant in made):
            wrong.append(note)
    return wrong


def check_notes(registry: Registry) -> None:
    """Raises MutateError when a note fits no automatic mutant: the code has moved on, or it never was."""
    lines = [
        f"{relative(registry.root, note.card_path)}:{note.line}: survivor[{note.guard}] fits no automatic mutant of "
        "that guard; take its lines from the report of --mutate-auto"
        for note in without_mutant(registry)
    ]
    if lines:
        raise MutateError("\n".join([f"{len(lines)} notes on survivors are wrong, nothing was run", *lines]))


def _fits(file: SourceFile, note: Note, mutant: Mutant) -> bool:
    return all(
        [token.text for token in file.lex(one)] == [token.text for token in file.lex(other)]
        for one, other in ((note.old, mutant.old), (note.new, mutant.new))
    )


def _words(file: SourceFile, mutant: Mutant) -> Words:
    """A mutant that a note explains is one that no test can kill, and says so."""
    why = next((note.why for note in file.notes if _fits(file, note, mutant)), None)
    return Words(unpaired=why)


def _text(registry: Registry, mutant: Mutant) -> str:
    return "\n".join(registry.rewrite([mutant]).values())


def _in_span(file: SourceFile, mutant: Mutant, span: Span) -> Iterator[Mutant]:
    lines = file.text.splitlines()
    number = 0
    for piece in (piece for piece in _pieces(file.text) if span.first <= piece.first and piece.last <= span.last):
        old = tuple(lines[piece.first - 1 : piece.last])
        margin = old[0][: len(old[0]) - len(old[0].lstrip())]
        for name, statement in variants(piece.statement):
            new = _header(statement) if _is_compound(statement) else ast.unparse(statement)
            number += 1
            made = Mutant(
                f"{mutant.guard}/auto-{piece.first}-{name}-{number}", Words(), old, (margin + new,),
                file.path, file.path, piece.first, piece.first - 1, automatic=True,
            )  # fmt: skip
            if _is_new(file, made, piece):
                yield replace(made, words=_words(file, made)) if file.notes else made


def _is_new(file: SourceFile, made: Mutant, piece: _Piece) -> bool:
    """Whether the rewrite compiles and means something else."""
    text = file.rewrite([(made, Span(file.path, piece.first, piece.last))])
    try:
        return not same_meaning(file.text, text, str(file.path))
    except SyntaxError:
        return False


@lru_cache(maxsize=1)  # the spans come file by file
def _pieces(text: str) -> list[_Piece]:
    """Those of a whole file."""
    pieces = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt) or isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            continue
        last = node.body[0].lineno - 1 if _is_compound(node) else node.end_lineno or node.lineno  # type: ignore[attr-defined]
        if node.lineno <= last:
            pieces.append(_Piece(node, node.lineno, last))
    return pieces


def _is_compound(node: ast.stmt) -> bool:
    return isinstance(node, (ast.If, ast.While, ast.For))


def _header(statement: ast.stmt) -> str:
    """`if test:` alone: the body stays as it is in the file."""
    return ast.unparse(statement).partition("\n")[0]
