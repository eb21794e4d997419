"""Card checks as collected items: one per file with cards, one for the project, in every pytest session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from teachkv.mutate.claims import unknown_claims
from teachkv.mutate.errors import Problem
from teachkv.mutate.registry import Registry


class CardFailure(Exception):
    """The problems of one item, shown without a traceback."""


class CardItem(pytest.Item):
    """Fails with one line per broken card."""

    def __init__(self, *, check: Callable[[], list[Problem]], root: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._check, self._root = check, root

    def runtest(self) -> None:
        problems = self._check()
        if problems:
            raise CardFailure("\n".join(problem.show(self._root) for problem in problems))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CardFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


class CardFile(pytest.File):
    """The collector of a file's one card item."""

    def collect(self) -> Iterable[pytest.Item]:
        return []


def card_items(session: pytest.Session, registry: Registry, items: list[pytest.Item]) -> list[pytest.Item]:
    """The card items to append to the collected tests."""
    made: list[pytest.Item] = []
    for file in registry.files:
        parent = CardFile.from_parent(session, path=file.path)
        check = _file_check(registry, file)
        made.append(CardItem.from_parent(parent, name="cards", check=check, root=registry.root))

    def project() -> list[Problem]:
        return registry.problems + unknown_claims(registry, items)

    parent = CardFile.from_parent(session, path=registry.root / "pyproject.toml")
    made.append(CardItem.from_parent(parent, name="cards", check=project, root=registry.root))
    return made


def _file_check(registry: Registry, file: Any) -> Callable[[], list[Problem]]:
    return lambda: registry.check_file(file)
