"""The command line of `pytest --mutate`. An option that does not fit another is an error, never ignored."""

from __future__ import annotations

import pytest


def add_options(parser: pytest.Parser) -> None:
    """Registers every option in one group of `pytest --help`."""
    group = parser.getgroup("mutate", "named mutants (cards beside the code)")
    group.addoption("--mutate-list", action="store_true", help="list guards, mutants and claimed killers")
    group.addoption("--mutate-show", metavar="ID", help="show one mutant: reason, origin, place, diff, killers")
    group.addoption("--mutate-with", metavar="ID", help="run pytest under one mutant; --pdb works")
