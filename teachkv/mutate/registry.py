"""The registry: every guard of the packages, with its mutants and where they lie. Built from the cards alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from teachkv.mutate.cards import Guard, Mutant
from teachkv.mutate.codetree import same_meaning
from teachkv.mutate.errors import CardError, MutateError, NoChangeError, Problem
from teachkv.mutate.place import CUDA_SUFFIXES, SourceFile, Span
from teachkv.mutate.settings import Settings

_HINT = re.compile(r"(guard|mutant)\s*\[")
_SUFFIXES = (".py", *CUDA_SUFFIXES)


@dataclass
class Registry:
    """All files with cards, in path order. Broken cards are kept as problems, not raised."""

    root: Path
    files: list[SourceFile]
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def load(cls, settings: Settings) -> Registry:
        """Reads every file of the packages that mentions a card, and the sidecars."""
        files = (SourceFile.read(path) for path in find_files(settings))
        registry = cls(settings.root, [file for file in files if not file.cards.empty])
        registry._check_ids()
        registry._check_orphans(settings)
        return registry

    @cached_property
    def guards(self) -> dict[str, Guard]:
        return {guard.id: guard for file in self.files for guard in file.cards.guards}

    @cached_property
    def mutants(self) -> dict[str, Mutant]:
        return {mutant.id: mutant for file in self.files for mutant in file.cards.mutants}

    def file(self, path: Path) -> SourceFile:
        return next(file for file in self.files if file.path == path)

    def mutant(self, mutant_id: str) -> Mutant:
        """The mutant of that id; MutateError with the nearest ids when there is none."""
        if mutant_id in self.mutants:
            return self.mutants[mutant_id]
        near = [known for known in self.mutants if mutant_id.partition("/")[0] in known]
        hint = f"did you mean {', '.join(near[:4])}?" if near else "see --mutate-list"
        raise MutateError(f"unknown mutant '{mutant_id}'; {hint}")

    def span(self, mutant: Mutant) -> Span:
        return self.file(mutant.path).locate(mutant, self.guards)

    def spans(self) -> dict[str, Span]:
        """Every mutant's place."""
        return {mutant.id: self.span(mutant) for mutant in self.mutants.values()}

    def with_partner(self, mutant: Mutant) -> list[Mutant]:
        """The mutant and the one its card says `with`."""
        return [mutant] if mutant.words.partner is None else [mutant, self.mutant(mutant.words.partner)]

    def rewrite(self, mutants: Iterable[Mutant]) -> dict[Path, str]:
        """Path -> whole source text, for every file that the mutants change together."""
        placed: dict[Path, list[tuple[Mutant, Span]]] = {}
        for mutant in mutants:
            placed.setdefault(mutant.path, []).append((mutant, self.span(mutant)))
        return {path: self.file(path).rewrite(pairs) for path, pairs in placed.items()}

    def check_file(self, file: SourceFile) -> list[Problem]:
        """Everything wrong with one file's cards: unreadable, drifted, without effect, without mutant."""
        found = [Problem(error.path, error.line, error.text) for error in file.cards.errors]
        for mutant in file.cards.mutants:
            try:
                self._check_mutant(file, mutant)
            except CardError as error:
                found.append(Problem(error.path, error.line, error.text))
        with_mutants = {mutant.guard for mutant in self.mutants.values()}
        for guard in file.cards.guards:
            if guard.id not in with_mutants:
                text = f"guard[{guard.id}] has no mutant; write a card that takes it away"
                found.append(Problem(guard.path, guard.line, text))
        return found

    def _check_mutant(self, file: SourceFile, mutant: Mutant) -> None:
        if mutant.guard not in self.guards:
            raise CardError(mutant.card_path, mutant.line, f"mutant[{mutant.id}]: no guard[{mutant.guard}] anywhere")
        if mutant.words.partner is not None and mutant.words.partner not in self.mutants:
            raise CardError(mutant.card_path, mutant.line, f"mutant[{mutant.id}]: no mutant[{mutant.words.partner}]")
        text = file.rewrite([(mutant, self.span(mutant))])
        if not file.is_python:
            return
        try:
            same = same_meaning(file.text, text, str(file.path))
        except SyntaxError as error:
            what = f"mutant[{mutant.id}] does not compile: {error.msg} (line {error.lineno} of the rewrite)"
            raise CardError(mutant.card_path, mutant.line, what) from error
        # guard[card-no-change]: a mutant that means the same can only survive, and teaches nothing
        # mutant[card-no-change/removed]:
        #   - if same:
        #   + if not text:
        if same:
            raise NoChangeError(mutant.card_path, mutant.line, f"mutant[{mutant.id}] compiles to the same bytecode")

    def _check_ids(self) -> None:
        seen: dict[str, Guard | Mutant] = {}
        for file in self.files:
            cards: list[Guard | Mutant] = [*file.cards.guards, *file.cards.mutants]
            for card in cards:
                first = seen.setdefault(card.id, card)
                # guard[card-unique]: of two cards with one id only one would be run
                # mutant[card-unique/removed]:
                #   - if first is not card:
                #   + if first is None:
                if first is not card:
                    path = card.card_path if isinstance(card, Mutant) else card.path
                    text = f"duplicate id '{card.id}', first at {first.path.name}:{first.line}; rename one"
                    self.problems.append(Problem(path, card.line, text))

    def _check_orphans(self, settings: Settings) -> None:
        for folder in settings.packages:
            for path in sorted(folder.rglob("*.mutants")):
                if not path.with_suffix("").is_file() or path.with_suffix("").suffix not in _SUFFIXES:
                    text = "a sidecar without its source; name it <file name>.mutants, as in batch.py.mutants"
                    self.problems.append(Problem(path, 1, text))


def find_files(settings: Settings) -> Iterator[Path]:
    """Source files that mention a card or have a sidecar, in path order."""
    for folder in settings.packages:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in _SUFFIXES or "__pycache__" in path.parts:
                continue
            sidecar = path.with_name(path.name + ".mutants").exists()
            if sidecar or _HINT.search(path.read_text(encoding="utf-8", errors="replace")):
                yield path


def as_data(registry: Registry, killers: dict[str, list[str]]) -> list[dict[str, Any]]:
    """The registry as plain data for the site: one dict per guard; lines count from 1."""
    rows = []
    for guard in registry.guards.values():
        mine = [mutant for mutant in registry.mutants.values() if mutant.guard == guard.id]
        rows.append(
            {
                "id": guard.id,
                "why": guard.why,
                "origin": guard.origin,
                "file": relative(registry.root, guard.path),
                "line": guard.line,
                "mutants": [
                    {
                        "id": mutant.id,
                        "old": list(mutant.old),
                        "new": list(mutant.new),
                        "decoy": mutant.words.decoy,
                        "with": mutant.words.partner,
                        "unpaired": mutant.words.unpaired,
                        "killers": killers.get(mutant.id, []),
                    }
                    for mutant in mine
                ],
            }
        )
    return rows


def relative(root: Path, path: Path) -> str:
    """`path` as people write it: relative to the project where it lies inside."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
