"""Small pieces of Markdown that the generated pages share."""

from __future__ import annotations

import re


def fenced(kind: str, lines: list[str]) -> list[str]:
    return [f"````{kind}", *lines, "````", ""]


def plain(text: str) -> str:
    """Text of a comment as Markdown that shows it as it is."""
    for mark in "\\*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text.rstrip(".")


def sentence(text: str) -> str:
    return f"{plain(text[:1].upper() + text[1:])}."


def cell(text: str) -> str:
    return plain(text).replace("\n", " ")


def linked(found: re.Match[str]) -> str:
    return f"[{found[1]}](../glossary.md#{found[2].replace(' ', '-')})"


def origin(text: str) -> str:
    """Where a guard comes from, with links: a public report, or the document that the glossary explains."""
    text = re.sub(r"([Tt]he (seed document|parent engine))", linked, plain(text))
    report = r"(?<![\w/.-])([\w.-]+/[\w.-]+)#(\d+)"
    return re.sub(report, r"[\1#\2](https://github.com/\1/issues/\2)", text)


def sentence_origin(text: str) -> str:
    """The same at the start of a sentence; the name of a repository keeps its letters."""
    return origin(f"T{text[1:]}" if text.startswith("the ") else text)
