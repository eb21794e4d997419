"""Source text -> tokens without comments and layout, so that a card survives a formatter but not a refactor."""

from __future__ import annotations

import contextlib
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

_CUDA = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\\\n)
      | (?P<token>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
                | [A-Za-z_]\w*
                | \.?\d(?:[eEpP][+-]|[\w.'])*
                | <<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#
                | .)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """`indent` is the column of the first token of a logical line and None elsewhere; lines count from 1."""

    text: str
    line: int
    end_line: int
    indent: int | None = None


@dataclass(frozen=True)
class Comment:
    """A comment without its `#` or `//`; `alone` when nothing else stands on its line."""

    text: str
    line: int
    alone: bool = True


@lru_cache(maxsize=1)  # a file is asked for its tokens and then for its comments
def _scan(text: str) -> list[tokenize.TokenInfo]:
    """All tokens of Python text up to the first error. A fragment may end inside a bracket."""
    found: list[tokenize.TokenInfo] = []
    with contextlib.suppress(tokenize.TokenError, IndentationError):
        found.extend(tokenize.generate_tokens(io.StringIO(text).readline))
    return found


def python_tokens(text: str) -> list[Token]:
    """Tokens of Python text. A fragment may end inside a bracket: what was read until there is returned."""
    tokens: list[Token] = []
    fresh = True
    for kind, string, start, end, _ in _scan(text):
        if kind == tokenize.NEWLINE:
            fresh = True
        if kind in _LAYOUT:
            continue
        tokens.append(Token(string, start[0], end[0], start[1] if fresh else None))
        fresh = False
    return tokens


def cuda_tokens(text: str) -> list[Token]:
    """Tokens of C++ or CUDA text. Indentation means nothing there, so no token carries it."""
    tokens: list[Token] = []
    line = 1
    for match in _CUDA.finditer(text):
        end = line + match.group().count("\n")
        if match.lastgroup == "token":
            tokens.append(Token(match.group(), line, end))
        line = end
    return tokens


def python_comments(text: str) -> Iterator[Comment]:
    """The comments of a Python text; a string that looks like one is none."""
    for kind, string, start, _, whole in _scan(text):
        if kind == tokenize.COMMENT:
            yield Comment(string[1:], start[0], not whole[: start[1]].strip())


def cuda_comments(text: str) -> Iterator[Comment]:
    """The `//` comments of a C++ or CUDA text; one inside a string or a block comment is none."""
    line = 1
    for match in _CUDA.finditer(text):
        if match.group().startswith("//"):
            before = text[: match.start()].rpartition("\n")[2]
            yield Comment(match.group()[2:].rstrip(), line, not before.strip())
        line += match.group().count("\n")


def same_tokens(old: list[Token], code: list[Token]) -> bool:
    """Token by token, and the indentation of logical lines relative to the first one.

    Inside a bracket the code has no logical lines, so only the texts count there.
    """
    if [token.text for token in old] != [token.text for token in code]:
        return False
    if not code or code[0].indent is None or old[0].indent is None:
        return True
    shift = code[0].indent - old[0].indent
    return all(a.indent is None or b.indent == a.indent + shift for a, b in zip(old, code, strict=True))
