"""What a tokenizer's files say of its tokens. Text of a token is bytes: characters appear where bytes are joined."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple


class Piece(NamedTuple):
    """What a token adds to a text: its bytes, and the same as text if they are whole characters."""

    raw: bytes
    text: str | None


class Shown(dict[int, Piece]):
    """Pieces of a text that leaves control tokens out, or keeps them, by token; each is asked for once."""

    def __init__(self, vocabulary: "Vocabulary", *, skip_special: bool) -> None:
        super().__init__()
        self.vocabulary, self.skip_special = vocabulary, skip_special

    def __missing__(self, token: int) -> Piece:
        hidden = self.skip_special and self.vocabulary.is_special(token)
        raw = b"" if hidden else self.vocabulary.token_bytes(token)
        try:
            piece = Piece(raw, raw.decode())
        except UnicodeDecodeError:
            piece = Piece(raw, None)
        self[token] = piece
        return piece


class Vocabulary(ABC):
    """Text <-> token ids.

    vocab_size: ids are below it. eos_ids, bos_id, pad_id: as the tokenizer's own files declare them (a model's config
    may declare more eos ids; whoever ends a sequence takes the union).
    """

    vocab_size: int
    eos_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    pad_id: int | None = None

    @abstractmethod
    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of text.

        add_special: add what the tokenizer puts around a text (bos, where it has one); never a second bos.
        parse_special: read control tokens spelled in the text as control tokens; by default they stay text.
        """

    @abstractmethod
    def token_bytes(self, token: int) -> bytes:
        """What the token adds to a running text, as bytes; a character may need several tokens."""

    @abstractmethod
    def is_special(self, token: int) -> bool:
        """Whether the token is a control token (left out of text by `skip_special`)."""

    @cached_property
    def shown(self) -> tuple[Shown, Shown]:
        """Pieces by token: with control tokens, and without (index by `skip_special`)."""
        return Shown(self, skip_special=False), Shown(self, skip_special=True)

    @property
    @abstractmethod
    def special_tokens(self) -> Mapping[str, int]:
        """Control tokens by their spelling."""

    @property
    def strips_first(self) -> int:
        """How many leading spaces the first token of a text loses (word-start markers of SentencePiece models)."""
        return 0

    def token_text(self, token: int) -> str:
        """One token by itself, as a list of log-probs shows it: control tokens are spelled out, half characters are
        not.
        """
        return self.token_bytes(token).decode("utf-8", "replace")

    @abstractmethod
    def encode_marked(self, text: str, mark: str) -> list[int]:
        """Token ids of a rendered chat, without added specials: control tokens are read, except where `mark` stands
        inside their spelling; the marks themselves vanish."""

    @property
    @abstractmethod
    def adds_bos(self) -> bool:
        """Whether `encode` with add_special puts a bos in front."""

    def template_variables(self) -> dict[str, str]:
        """bos_token, eos_token and their like, as templates name them."""
        return {}
