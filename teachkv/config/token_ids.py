"""Which tokens end, begin and pad. Ends are the union of config.json and generation_config.json (vllm#4182)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teachkv.config.families import Family
from teachkv.config.reading import Fields


@dataclass(frozen=True, slots=True)
class TokenIds:
    eos: tuple[int, ...]
    bos: int | None
    pad: int | None
    notes: tuple[str, ...]


def read_token_ids(fields: Fields, family: Family, generation: Mapping[str, Any] | None, vocab: int) -> TokenIds:
    """Ids from both files; a later file never hides an end that the other names. Raises ConfigError for a non-id."""
    notes: list[str] = []
    extra = Fields(generation or {}, "generation_config.json")
    eos: list[int] = []
    # guard[eos-union]: the end of a turn often stands in one file and the end of a text in the other
    # mutant[eos-union/config-only]:
    #   - for source in (fields, extra):
    #   + for source in (fields,):
    # mutant[eos-union/generation-only]:
    #   - for source in (fields, extra):
    #   + for source in (extra,):
    for source in (fields, extra):
        eos += _ids(source, "eos_token_id")
    eos = list(dict.fromkeys(eos))
    if not eos and family.eos_id is not None and "eos_token_id" not in fields.data:
        eos = [family.eos_id]
        notes.append(f"eos_token_id is absent: {family.eos_id}, the {family.name} default")
    if not eos:
        notes.append("no eos id: generation ends by length or stop string only")
    for token in eos:
        if token >= vocab:
            notes.append(f"eos id {token} lies outside the vocabulary of {vocab} and can never be drawn")
    bos = _single(fields, "bos_token_id")
    if bos is None and "bos_token_id" not in fields.data and family.bos_id is not None:
        bos = family.bos_id
        notes.append(f"bos_token_id is absent: {bos}, the {family.name} default")
    return TokenIds(tuple(eos), bos, _single(fields, "pad_token_id"), tuple(notes))


def _ids(fields: Fields, key: str) -> list[int]:
    value = fields.raw(key, [])
    found = value if isinstance(value, list) else [value]
    if len(found) > 1024:
        fields.fail(key, f"lists {len(found)} ids")
    for token in found:
        if not isinstance(token, int) or isinstance(token, bool) or token >= 2**31:
            fields.fail(key, f"must be a token id or a list of them, not {str(value)[:40]!r}")
    return [token for token in found if token >= 0]  # -1 is written for "none" by old converters


def _single(fields: Fields, key: str) -> int | None:
    """0 is an id like any other: only null, absent and negative mean none."""
    found = _ids(fields, key)
    # guard[pad-zero]: token 0 read as "no id" pads with the end token and shifts every mask (Automodel#3704)
    # mutant[pad-zero/falsy]:
    #   - return found[0] if found else None
    #   + return (found[0] or None) if found else None
    return found[0] if found else None
