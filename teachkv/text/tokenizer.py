"""What every tokenizer can do: tokens to text, a conversation to tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from teachkv.errors import TemplateError
from teachkv.text.chat import chat_ids
from teachkv.text.chat_template import ChatTemplate, Message
from teachkv.text.detokenizer import Detokenizer
from teachkv.text.vocabulary import Vocabulary


class AnyTokenizer(Vocabulary):
    """A vocabulary, and the chat template that the model brought (None if it brought none)."""

    chat_template: ChatTemplate | None = None

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Text of a whole sequence. Each ill-formed run of bytes gives one U+FFFD, as Unicode recommends."""
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
