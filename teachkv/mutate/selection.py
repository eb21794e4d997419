"""Which mutants a run takes: `--mutate-only`, narrowed tests, lanes, shards."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache

import pytest
from _pytest.mark.expression import Expression

from teachkv.mutate.cards import Mutant
from teachkv.mutate.claims import Claim
from teachkv.mutate.errors import CardError, MutateError
from teachkv.mutate.options import LANES
from teachkv.mutate.registry import Registry

_SHARD = re.compile(r"([1-9]\d*)/([1-9]\d*)")


def matching(mutants: Iterable[Mutant], expression: str) -> list[Mutant]:
    """Mutants whose id matches an expression in the grammar of `-k`."""
    try:
        compiled = Expression.compile(expression)
    except SyntaxError as error:
        raise MutateError(f"--mutate-only={expression}: {error}; write it as for -k, over mutant ids") from error
    return [mutant for mutant in mutants if compiled.evaluate(_matcher(mutant.id))]


def _matcher(mutant_id: str):  # type: ignore[no-untyped-def]
    return lambda name, /, **_: name.lower() in mutant_id


def shard_of(mutants: list[Mutant], shard: str) -> list[Mutant]:
    """Part i of n of the mutants, dealt out in turn so that slow neighbours are spread."""
    found = _SHARD.fullmatch(shard)
    if found is None or int(found.group(1)) > int(found.group(2)):
        raise MutateError(f"--mutate-shard={shard}: write i/n with 1 <= i <= n, as in 2/4")
    part, parts = int(found.group(1)), int(found.group(2))
    return mutants[part - 1 :: parts]


def parse_lanes(text: str) -> list[str]:
    """Comma-separated lane names, in the order of the contract."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in LANES]
    if unknown or not names:
        raise MutateError(f"--mutate-lane={text}: unknown lane '{', '.join(unknown)}'; known are {', '.join(LANES)}")
    return [lane for lane in LANES if lane in names]


def lanes_of(registry: Registry, mutant: Mutant) -> tuple[str, ...]:
    """Every lane that can say something about a mutant; the first one judges it."""
    first = lane_of(registry, mutant)
    return (first, "nvrtc", "gpu") if first in ("host", "tsan") else (first,)


def lane_of(registry: Registry, mutant: Mutant) -> str:
    """The lane that can judge a mutant first: by the file's kind, then by the decorators around the span."""
    if mutant.path.suffix != ".py":
        return "tsan" if mutant.words.sync else "host"
    try:
        span = registry.span(mutant)
    except CardError:
        return "python"  # the check of cards, which comes next, tells what is wrong
    text = registry.file(mutant.path).text
    decorators = [text for first, last, text in _decorated(text) if first <= span.first and span.last <= last]
    if any("cuda.jit" in text for text in decorators):
        return "numba-sim"
    return "numba-nojit" if any(re.search(r"\b(n?jit|vectorize|guvectorize)\b", t) for t in decorators) else "python"


@cache
def _decorated(text: str) -> list[tuple[int, int, str]]:
    """(first line, last line, decorators) of every decorated function."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list:
            names = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            found.append((node.decorator_list[0].lineno, node.end_lineno or node.lineno, names))
    return found


def is_narrowed(config: pytest.Config) -> bool:
    """Whether the user asked for some of the tests only."""
    option = config.option
    return bool(option.file_or_dir or option.keyword or option.markexpr)


def select(registry: Registry, claims: dict[str, list[Claim]], config: pytest.Config, lane: str) -> list[Mutant]:
    """The mutants of this run and lane. With narrowed tests: those that they claim, and decoys of the same guards."""
    option = config.option
    mutants = list(registry.mutants.values())
    if option.mutate_only:
        mutants = matching(mutants, option.mutate_only)
    elif is_narrowed(config):
        guards = {mutant.guard for mutant in mutants if mutant.id in claims}
        mutants = [m for m in mutants if m.id in claims or (m.words.decoy and m.guard in guards)]
    mutants = [mutant for mutant in mutants if lane in lanes_of(registry, mutant)]
    return shard_of(mutants, option.mutate_shard) if option.mutate_shard else mutants
