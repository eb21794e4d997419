"""The tokenizer inside a GGUF file, as the text files of a Hugging Face directory.

The splitting rule is not in the vocabulary or the merges: a name, `tokenizer.ggml.pre`, stands for a pattern. A wrong
rule still tokenises, and the model gets worse (llama.cpp#6920); so an unknown name is an error.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from teachkv.checkpoint.byte_tokenizer import added_token
from teachkv.checkpoint.gguf_config import TEMPLATE
from teachkv.checkpoint.gguf_header import GGUFHeader
from teachkv.checkpoint.gguf_spm import sentencepiece_parts
from teachkv.checkpoint.pre_tokenizers import BYTE_LEVEL_PLAIN, PRE_TOKENIZERS
from teachkv.config.reading import printable
from teachkv.errors import TokenizerError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PREFIX = "tokenizer.ggml."


def tokenizer_files(header: GGUFHeader) -> dict[str, str]:
    """tokenizer.json, tokenizer_config.json, chat_template.jinja. Raises TokenizerError for what cannot be rebuilt."""
    source = Vocabulary(header)
    model = source.text("model")
    if model == "gpt2":
        parts = _byte_level_parts(source)
    elif model == "llama":
        parts = sentencepiece_parts(
            source.tokens, source.floats("scores"), source.types, source.flag("add_space_prefix", True)
        )
    else:
        raise source.fail("model", f"is {str(model)[:40]!r}; known are gpt2 (byte-level BPE) and llama (sentencepiece)")
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": source.added_tokens(),
        "post_processor": _post_processor(source, source.adds_bos(model), source.flag("add_eos_token", False)),
    } | parts
    files = {
        "tokenizer.json": json.dumps(tokenizer, ensure_ascii=False),
        "tokenizer_config.json": json.dumps(_settings(source, model), ensure_ascii=False),
    }
    return files | _template_files(header, files)


class Vocabulary:
    """The tokenizer keys of a file, checked."""

    def __init__(self, header: GGUFHeader) -> None:
        self.path, self.metadata = header.path, header.metadata
        tokens = self.metadata.get(PREFIX + "tokens")
        if not isinstance(tokens, list) or not tokens:
            raise self.fail("tokens", "is missing or no list of strings")
        self.tokens: list[str] = tokens
        self.types = self._types(len(tokens))
        # guard[gguf-token-unique]: of two equal tokens only one could ever be encoded
        # mutant[gguf-token-unique/removed]:
        #   - if len(set(tokens)) != len(tokens):
        #   + if False:
        if len(set(tokens)) != len(tokens):
            raise self.fail("tokens", "lists one token twice")
        rows = next((tensor.shape[0] for tensor in header.tensors if tensor.name == "token_embd.weight"), len(tokens))
        if len(tokens) > rows:
            raise self.fail("tokens", f"lists {len(tokens)} tokens for {rows} embeddings")

    def fail(self, key: str, message: str) -> TokenizerError:
        return TokenizerError(f"{self.path}: {PREFIX}{key} {message}")

    def text(self, key: str) -> str | None:
        value = self.metadata.get(PREFIX + key)
        if value is not None and not isinstance(value, str):
            raise self.fail(key, "must be a string")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.metadata.get(PREFIX + key, default)
        if not isinstance(value, bool):
            raise self.fail(key, "must be true or false")
        return value

    def floats(self, key: str) -> list[float]:
        value = self.metadata.get(PREFIX + key)
        if not isinstance(value, np.ndarray) or value.dtype != np.float32 or len(value) != len(self.tokens):
            raise self.fail(key, "must hold one float32 per token")
        if not np.isfinite(value).all():
            raise self.fail(key, "must be finite")
        return [float(item) for item in value]

    def token(self, key: str) -> tuple[int, str] | None:
        """(id, text) of one special token."""
        number = self.metadata.get(f"{PREFIX}{key}_token_id")
        if number is None:
            return None
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(self.tokens):
            raise self.fail(f"{key}_token_id", f"is {str(number)[:40]!r}; there are {len(self.tokens)} tokens")
        return number, self.tokens[number]

    def adds_bos(self, model: str) -> bool:
        """Where the file is silent, llama.cpp's defaults for the kind hold."""
        by_default = model == "llama" or self.text("pre") in ("llama-bpe", "llama3", "llama-v3", "tekken")
        return self.flag("add_bos_token", by_default)

    def added_tokens(self) -> list[dict[str, object]]:
        """Tokens taken whole wherever they stand in text: control tokens and those the user defined."""
        special = {CONTROL, UNKNOWN}
        return [
            added_token(number, token, special=kind in special)
            for number, (token, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind in special or kind == USER_DEFINED
        ]

    def _types(self, count: int) -> list[int]:
        value = self.metadata.get(PREFIX + "token_type")
        if value is None:
            return [NORMAL] * count
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or len(value) != count:
            raise self.fail("token_type", "must hold one whole number per token")
        return [int(item) for item in value]


def _template_files(header: GGUFHeader, files: dict[str, str]) -> dict[str, str]:
    """chat_template.jinja where one template is all there is, else all by name in the tokenizer's settings."""
    found = {}
    for key, value in header.metadata.items():
        name = "default" if key == TEMPLATE else key.removeprefix(f"{TEMPLATE}.")
        if name == key:
            continue
        if not isinstance(value, str):
            raise TokenizerError(f"{header.path}: {printable(key)} must be a string; the file is damaged")
        found[name] = value
    if set(found) <= {"default"}:
        return {"chat_template.jinja": found["default"]} if found else {}
    settings = json.loads(files["tokenizer_config.json"])
    settings["chat_template"] = [{"name": name, "template": text} for name, text in found.items()]
    return {"tokenizer_config.json": json.dumps(settings, ensure_ascii=False)}


def _byte_level_parts(source: Vocabulary) -> dict[str, Any]:
    name = source.text("pre")
    # guard[gguf-pre-known]: a default splitting rule splits numbers and contractions otherwise than in training
    # mutant[gguf-pre-known/default]:
    #   - if name not in PRE_TOKENIZERS:
    #   + if name is None:
    if name not in PRE_TOKENIZERS:
        raise source.fail("pre", f"is {str(name)[:40]!r}; known are {', '.join(PRE_TOKENIZERS)}")
    rule = PRE_TOKENIZERS[name]
    return {
        "normalizer": {"type": rule.normalizer} if rule.normalizer else None,
        "pre_tokenizer": rule.pre_tokenizer,
        "decoder": BYTE_LEVEL_PLAIN,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": rule.ignore_merges,
            "vocab": {token: number for number, token in enumerate(source.tokens)},
            "merges": _merges(source),
        },
    }


def _merges(source: Vocabulary) -> Sequence[list[str]]:
    lines = source.metadata.get(PREFIX + "merges")
    if not isinstance(lines, list):
        raise source.fail("merges", "is missing or no list of strings")
    known = set(source.tokens)
    pairs = []
    for index, line in enumerate(lines):
        pair = line.split(" ")
        if len(pair) != 2 or not {*pair, "".join(pair)} <= known:
            raise source.fail("merges", f"entry {index} is {line[:40]!r}: not two tokens that make a third")
        pairs.append(pair)
    return pairs


def _post_processor(source: Vocabulary, bos: bool, eos: bool) -> dict[str, Any] | None:
    """Puts the begin (end) token around a text where the file asks for it."""
    before = source.token("bos") if bos else None
    after = source.token("eos") if eos else None
    if before is None and after is None:
        return None

    def piece(token: tuple[int, str]) -> dict[str, Any]:
        return {"SpecialToken": {"id": token[1], "type_id": 0}}

    def around(sequence: str) -> list[dict[str, Any]]:
        middle = {"Sequence": {"id": sequence, "type_id": 0}}
        return [*([piece(before)] if before else []), middle, *([piece(after)] if after else [])]

    specials = {text: {"id": text, "ids": [number], "tokens": [text]} for number, text in filter(None, (before, after))}
    return {
        "type": "TemplateProcessing",
        "single": around("A"),
        "pair": around("A") + around("B"),
        "special_tokens": specials,
    }


def _settings(source: Vocabulary, model: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": source.adds_bos(model),
        "clean_up_tokenization_spaces": False,
    }
    for key, name in (("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")):
        token = source.token(key)
        found[name] = token[1] if token else None
    return found
