"""A tokenizer.json, read by the `tokenizers` package, with the special tokens of tokenizer_config.json."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from teachkv.errors import TokenizerError
from teachkv.text.chat_template import ChatTemplate, load_chat_template
from teachkv.text.control import ControlTwin, looks_like_markup
from teachkv.text.package import ids_of, open_tokenizer
from teachkv.text.sources import Folder, TextFiles, read_json
from teachkv.text.token_bytes import TokenText, read_decoder
from teachkv.text.tokenizer import AnyTokenizer

NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def load_tokenizer(files: TextFiles, templates: TextFiles | None = None) -> "Tokenizer":
    """Read tokenizer.json, tokenizer_config.json and the chat template (from `templates`, default the same files).

    Raises TokenizerError: missing or damaged file, unknown decoder, contradictory special tokens.
    """
    raw = files.read("tokenizer.json")
    if raw is None:
        raise TokenizerError(f"{files.where}: tokenizer.json is missing; copy it from the model's repository")
    config = read_json(files, "tokenizer_config.json") or {}
    template = load_chat_template(files if templates is None else templates)
    return Tokenizer(raw, config, where=files.where, chat_template=template)


class Tokenizer(AnyTokenizer):
    """`raw`: the content of a tokenizer.json. `config`: a tokenizer_config.json, {} if there is none."""

    def __init__(
        self,
        raw: bytes | str,
        config: Mapping[str, Any],
        *,
        where: str = "tokenizer.json",
        chat_template: ChatTemplate | None = None,
    ) -> None:
        self.where, self.config, self.chat_template = where, config, chat_template
        self.inner, self.vocab_size = open_tokenizer(raw, where)
        self.raw = raw
        self._text = self._read_rule()
        added = self.inner.get_added_tokens_decoder()
        self._added = {number: token.content for number, token in added.items()}
        self._special = frozenset(number for number, token in added.items() if token.special)
        self._bytes: dict[int, bytes] = {}
        self._named = self._read_named()
        self.bos_id, self.pad_id = self._named_id("bos_token"), self._named_id("pad_token")
        eos = self._named_id("eos_token")
        self.eos_ids = () if eos is None else (eos,)

    @classmethod
    def from_dir(cls, folder: str | Path) -> "Tokenizer":
        """Read a Hugging Face folder. Raises TokenizerError."""
        return load_tokenizer(Folder(folder))

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        ids = self._plain_ids(_whole(text), add_special=add_special, parse_special=parse_special)
        # guard[one-bos]: a bos that the text spells and one that the tokenizer adds are one too many
        # origin: vllm-project/vllm#27486
        # mutant[one-bos/removed]:
        #   - if add_special and self.adds_bos and ids[1:2] == [self.bos_id]:
        #   + if False:
        if add_special and self.adds_bos and ids[1:2] == [self.bos_id]:
            del ids[0]
        return ids

    def encode_marked(self, text: str, mark: str) -> list[int]:
        whole = _whole(text)
        if not mark or mark not in whole:
            return self._plain_ids(whole.replace(mark, "") if mark else whole, add_special=False, parse_special=True)
        return self.twin.encode_marked(whole, mark)

    def token_bytes(self, token: int) -> bytes:
        found = self._bytes.get(token)
        if found is None:
            found = self._bytes[token] = self._bytes_of(token)
        return found

    def is_special(self, token: int) -> bool:
        return token in self._special

    @property
    def strips_first(self) -> int:
        return self._text.strip_first

    @cached_property
    def special_tokens(self) -> Mapping[str, int]:
        """Control tokens: all that are marked special, and added tokens written as tags that the chat template uses."""
        template = self.chat_template.source if self.chat_template else ""
        return {
            content: number
            for number, content in self._added.items()
            if number in self._special or (looks_like_markup(content) and content in template)
        }

    @cached_property
    def adds_bos(self) -> bool:
        return self.bos_id is not None and ids_of(self.inner, "", add_special=True, where=self.where)[:1] == [
            self.bos_id
        ]

    @cached_property
    def twin(self) -> ControlTwin:
        """Made when a text first spells a control token: most never do, and it costs a second reading of the file."""
        return ControlTwin(json.loads(self.raw), self.special_tokens, self.where)

    def template_variables(self) -> dict[str, str]:
        return dict(self._named)

    def spells_control(self, text: str) -> bool:
        """Whether a plain reading of text might find a control token in it."""
        return any(content in text for content in self.special_tokens) or self._normal_form_spells(text)

    def _plain_ids(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        # guard[text-stays-text]: what a user types is text, also where it spells a control token
        # origin: huggingface/transformers#29279
        # mutant[text-stays-text/removed]:
        #   - if not parse_special and self.spells_control(text):
        #   + if False:
        if not parse_special and self.spells_control(text):
            return self.twin.encode(text, add_special=add_special)
        return ids_of(self.inner, text, add_special=add_special, where=self.where)

    def _normal_form_spells(self, text: str) -> bool:
        """Tokens marked `normalized` are looked for in the normalised text, so other spellings can reach them too."""
        normalizer = self.inner.normalizer
        if normalizer is None or not self._normalized_controls:
            return False
        normal = normalizer.normalize_str(text)
        return any(content in normal for content in self._normalized_controls)

    @cached_property
    def _normalized_controls(self) -> list[str]:
        added = self.inner.get_added_tokens_decoder()
        normalizer = self.inner.normalizer
        controls = [content for content, number in self.special_tokens.items() if added[number].normalized]
        return [normalizer.normalize_str(content) for content in controls] if normalizer is not None else []

    def _bytes_of(self, token: int) -> bytes:
        if token in self._added:
            return (self._text.before + self._added[token]).encode("utf-8", "replace")
        entry = self.inner.id_to_token(token) if 0 <= token < self.vocab_size else None
        return b"" if entry is None else self._text.of(entry)

    def _read_rule(self) -> TokenText:
        decoder = self.inner.decoder
        written = None if decoder is None else json.loads(decoder.__getstate__())
        return read_decoder(written, f"{self.where}: tokenizer.json")

    def _read_named(self) -> dict[str, str]:
        """The special tokens that the config names, each a string or an object with the string in `content`."""
        named: dict[str, str] = {}
        for name in NAMED:
            value = self.config.get(name)
            content = value.get("content") if isinstance(value, Mapping) else value
            if content is not None and not isinstance(content, str):
                raise TokenizerError(f"{self.where}: tokenizer_config.json: {name} is {value!r:.60}; expected a string")
            if content is not None:
                named[name] = content
        return named

    def _named_id(self, name: str) -> int | None:
        content = self._named.get(name)
        return None if content is None else self.inner.token_to_id(content)


def _whole(text: str) -> str:
    """Lone surrogates cannot be encoded; they become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
