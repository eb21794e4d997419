"""What every tokenizer can do. Text of a token is bytes: characters appear only where bytes have been joined."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from teachkv.errors import TemplateError

if TYPE_CHECKING:
    from teachkv.text.chat_template import ChatTemplate

Message = Mapping[str, Any]


class AnyTokenizer(ABC):
    """Text <-> token ids.

    vocab_size: ids are below it. eos_ids, bos_id, pad_id: as the tokenizer's own files declare them (a model's config
    may declare more eos ids; whoever ends a sequence takes the union). chat_template: None if the model brought none.
    """

    vocab_size: int
    eos_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    pad_id: int | None = None
    chat_template: "ChatTemplate | None" = None

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

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Text of a whole sequence. Each ill-formed run of bytes gives one U+FFFD, as Unicode recommends."""
        from teachkv.text.detokenizer import Detokenizer

        running = Detokenizer(self, skip_special=skip_special)
        return "".join(running.push(token) for token in ids) + running.flush()

    def chat_ids(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool | None = None,
        continue_final_message: bool | str = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        parse_special: bool = False,
        variables: Mapping[str, Any] | None = None,
        template_name: str | None = None,
    ) -> list[int]:
        """Token ids of a conversation under the model's chat template.

        add_generation_prompt: default True, unless the final message is continued. parse_special: by default a control
        token spelled inside a message, a tool or a document stays text, so that no user can forge a turn. Exactly one
        bos is written if either the template or the tokenizer wants one. template_name: one of several templates that
        the model brought.

        Raises TemplateError: no template, or the template refused (with its own message).
        """
        from teachkv.text.chat import chat_ids

        if self.chat_template is None:
            raise TemplateError(
                "this model has no chat template; pass a plain prompt, or give it one (chat_template.jinja)"
            )
        if add_generation_prompt is None:
            add_generation_prompt = not continue_final_message
        return chat_ids(
            self,
            self.chat_template,
            messages,
            parse_special=parse_special,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            tools=tools,
            documents=documents,
            variables=variables or {},
            name=template_name,
        )

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
