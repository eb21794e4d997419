"""The splitting rules that `tokenizer.ggml.pre` names, as `pre_tokenizer` entries of a tokenizer.json."""

from dataclasses import dataclass
from typing import Any

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTE_LEVEL_PLAIN = BYTE_LEVEL | {"use_regex": False}

# Shared by Llama 3 and Qwen2 but for how many digits make one piece.
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = _WORDS + r"\p{N}{1,3}" + _REST
QWEN2 = _WORDS + r"\p{N}" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """`ignore_merges`: a word that is in the vocabulary as a whole is taken whole, whatever the merges say."""

    pre_tokenizer: dict[str, Any]
    normalizer: str | None = None
    ignore_merges: bool = False


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL_PLAIN]}


_GPT2 = PreTokenizer(BYTE_LEVEL)
_SMOLLM = PreTokenizer(
    {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]}
)
_LLAMA3 = PreTokenizer(_split(LLAMA3), ignore_merges=True)
_QWEN2 = PreTokenizer(_split(QWEN2), normalizer="NFC")

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "gpt-2": _GPT2,
    "smollm": _SMOLLM,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": PreTokenizer(_split(QWEN2)),
    "tekken": PreTokenizer(_split(TEKKEN), ignore_merges=True),
}
