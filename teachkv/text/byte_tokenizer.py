"""One token per byte: the tokenizer that fits on a screen, and needs no file and no package."""

import re
from collections.abc import Mapping, Sequence

from teachkv.errors import TokenizerError
from teachkv.text.chat_template import ChatTemplate
from teachkv.text.tokenizer import AnyTokenizer

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


class ByteTokenizer(AnyTokenizer):
    """Token b < 256 is the byte b; control tokens follow; ids above them, up to `vocab_size`, are no text at all."""

    def __init__(
        self,
        specials: Sequence[str] = SPECIALS,
        *,
        eos: str | None = SPECIALS[0],
        bos: str | None = None,
        vocab_size: int | None = None,
        chat_template: ChatTemplate | None = None,
    ) -> None:
        self._specials = {text: 256 + place for place, text in enumerate(specials)}
        self._spelled = {number: text for text, number in self._specials.items()}
        self.vocab_size = 256 + len(specials) if vocab_size is None else vocab_size
        for name in (eos, bos):
            if name is not None and name not in self._specials:
                raise TokenizerError(f"'{name}' is not among the control tokens {list(specials)}")
        self.eos_ids = () if eos is None else (self._specials[eos],)
        self.bos_id = None if bos is None else self._specials[bos]
        self.chat_template = chat_template

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        ids = self._parsed(text) if parse_special else list(_utf8(text))
        if add_special and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        return ids

    def encode_marked(self, text: str, mark: str) -> list[int]:
        return self._parsed(text, mark)

    def token_bytes(self, token: int) -> bytes:
        if token < 256:
            return bytes([token])
        return _utf8(self._spelled.get(token, ""))

    def is_special(self, token: int) -> bool:
        return token >= 256

    @property
    def special_tokens(self) -> Mapping[str, int]:
        return self._specials

    @property
    def adds_bos(self) -> bool:
        return self.bos_id is not None

    def template_variables(self) -> dict[str, str]:
        named = {"bos_token": self.bos_id, "eos_token": self.eos_ids[0] if self.eos_ids else None}
        return {name: self._spelled[token] for name, token in named.items() if token is not None}

    def _parsed(self, text: str, mark: str = "") -> list[int]:
        spellings = "|".join(re.escape(s) for s in sorted(self._specials, key=len, reverse=True))
        ids: list[int] = []
        for piece in re.split(f"({spellings})", text) if spellings else [text]:
            ids += (
                [self._specials[piece]]
                if piece in self._specials
                else _utf8(piece.replace(mark, "") if mark else piece)
            )
        return ids


def _utf8(text: str) -> bytes:
    """Lone surrogates cannot be written as UTF-8; they become U+FFFD, as in any decoder."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
