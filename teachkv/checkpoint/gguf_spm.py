"""Sentencepiece vocabularies (Llama 2, Mistral) as a tokenizer.json: BPE over characters with a score per piece.

Sentencepiece joins, again and again, the neighbouring pair whose joined piece has the best score. With merges ranked by
that score a BPE does the same; a piece is reachable from every pair of pieces that spell it.
"""

from collections.abc import Sequence
from typing import Any

SPACE = "\u2581"
NORMAL, UNKNOWN, BYTE = 1, 2, 6


def sentencepiece_parts(
    tokens: Sequence[str], scores: Sequence[float], types: Sequence[int], add_space: bool
) -> dict[str, Any]:
    """normalizer, pre_tokenizer, decoder and model of a tokenizer.json. Bytes are spelt <0x00> .. <0xFF>."""
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if add_space:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    normalizers = [{"type": "Prepend", "prepend": SPACE}, spaces] if add_space else [spaces]
    unknown = next((token for token, kind in zip(tokens, types, strict=True) if kind == UNKNOWN), None)
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": BYTE in types,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": ranked_merges(tokens, scores, types),
        },
    }


def ranked_merges(tokens: Sequence[str], scores: Sequence[float], types: Sequence[int]) -> list[list[str]]:
    """Every pair of pieces that spells a piece, best score first; pairs of one piece in the order of their ids."""
    ids = {token: number for number, (token, kind) in enumerate(zip(tokens, types, strict=True)) if kind == NORMAL}
    found = []
    for token, number in ids.items():
        for cut in range(1, len(token)):
            left, right = ids.get(token[:cut]), ids.get(token[cut:])
            if left is not None and right is not None:
                found.append((-scores[number], left, right))
    found.sort()
    return [[tokens[left], tokens[right]] for _, left, right in found]
