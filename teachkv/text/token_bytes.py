"""From a tokenizer.json's decoder to the bytes of each token."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from teachkv.errors import TokenizerError

Json = Mapping[str, Any]


def byte_symbols() -> dict[str, int]:
    """The printable character that stands for each byte in byte-level vocabularies (GPT-2's table): symbol -> byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


SYMBOLS = byte_symbols()


@dataclass
class TokenText:
    """How one vocabulary entry becomes bytes.

    replacements: (old, new) in order, such as the word-start marker for a space. byte_level: entries are written in
    `byte_symbols`. byte_fallback: `<0x0A>` is the byte 10. before: stands before every token. strip_first: spaces that
    the first token of a text loses.
    """

    replacements: list[tuple[str, str]] = field(default_factory=list)
    before: str = ""
    byte_level: bool = False
    byte_fallback: bool = False
    strip_first: int = 0

    def of(self, entry: str) -> bytes:
        if self.byte_fallback and (byte := fallback_byte(entry)) is not None:
            return bytes([byte])
        for old, new in self.replacements:
            entry = entry.replace(old, new)
        if self.byte_level and all(char in SYMBOLS for char in entry):
            return bytes(SYMBOLS[char] for char in entry)
        return (self.before + entry).encode("utf-8", "replace")


def fallback_byte(entry: str) -> int | None:
    """The byte that `<0xNN>` stands for; None for any other entry."""
    if len(entry) == 6 and entry.startswith("<0x") and entry.endswith(">"):
        try:
            return int(entry[3:5], 16)
        except ValueError:
            return None
    return None


def read_decoder(decoder: Json | None, where: str) -> TokenText:
    """Read the `decoder` of a tokenizer.json. Raises TokenizerError for a kind whose text cannot be given token by
    token.
    """
    rule = TokenText()
    if decoder is None:
        # The package then puts a space between tokens; the first one's is stripped.
        rule.before, rule.strip_first = " ", 1
        return rule
    for step in _steps(decoder):
        kind = step.get("type")
        if kind not in STEPS:
            known = ", ".join(sorted(STEPS))
            raise TokenizerError(f"{where}: decoder of type {kind!r} is not supported; supported: {known}")
        try:
            STEPS[kind](rule, step)
        except (KeyError, TypeError, ValueError):
            raise TokenizerError(
                f"{where}: decoder step {kind} cannot be used as it is written: {dict(step)}"
            ) from None
    return rule


def _steps(decoder: Json) -> list[Json]:
    if decoder.get("type") == "Sequence":
        return [inner for step in decoder.get("decoders", []) for inner in _steps(step)]
    return [decoder]


def _replace(rule: TokenText, step: Json) -> None:
    rule.replacements.append((str(step["pattern"]["String"]), str(step["content"])))


def _metaspace(rule: TokenText, step: Json) -> None:
    rule.replacements.append((str(step["replacement"]), " "))
    scheme = step.get("prepend_scheme") or ("always" if step.get("add_prefix_space", True) else "never")
    rule.strip_first = 0 if scheme == "never" else 1


def _strip(rule: TokenText, step: Json) -> None:
    if step["content"] != " " or step.get("stop", 0):
        raise ValueError("only leading spaces can be taken off while text is still coming")
    rule.strip_first = int(step["start"])


def _byte_level(rule: TokenText, step: Json) -> None:
    rule.byte_level = True


def _byte_fallback(rule: TokenText, step: Json) -> None:
    rule.byte_fallback = True


def _fuse(rule: TokenText, step: Json) -> None:
    """Joins tokens, which running text does anyway."""


STEPS: dict[Any, Callable[[TokenText, Json], None]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Fuse": _fuse,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _strip,
}
