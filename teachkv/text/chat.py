"""A conversation as token ids: what the template writes is read with control tokens, what people wrote is text."""

import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from teachkv.errors import TemplateError
from teachkv.text.chat_template import ChatTemplate, Message
from teachkv.text.vocabulary import Vocabulary

log = logging.getLogger("teachkv.text")
MARK_DIGITS = 24


def chat_ids(
    tokenizer: Vocabulary,
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    parse_special: bool,
    tools: Sequence[Mapping[str, Any]] | None,
    documents: Sequence[Mapping[str, Any]] | None,
    variables: Mapping[str, Any],
    **options: Any,
) -> list[int]:
    """See `AnyTokenizer.chat_ids`."""
    # Digits survive whatever a template does to text: upper case, JSON, HTML or URL escapes.
    mark = "".join(secrets.choice("0123456789") for _ in range(MARK_DIGITS))
    if not parse_special:
        shield = Shield(tokenizer, mark)
        messages = [shield.message(message) for message in messages]
        tools, documents = shield.all(tools), shield.all(documents)
        if shield.used:
            log.info("text of a message spells the control token %r; it is kept as text", shield.used)
    values = {**tokenizer.template_variables(), **variables}
    text = template.render(messages, tools=tools, documents=documents, variables=values, **options)
    _refuse_broken_marks(text, mark, template.where)
    ids = tokenizer.encode_marked(text, mark)
    # guard[chat-one-bos]: template and tokenizer may each want a bos; the model was trained on one
    # origin: vllm-project/vllm#27486
    # mutant[chat-one-bos/always-adds]:
    #   - if tokenizer.adds_bos and tokenizer.bos_id is not None and ids[:1] != [tokenizer.bos_id]:
    #   + if tokenizer.adds_bos and tokenizer.bos_id is not None:
    # mutant[chat-one-bos/never-adds]:
    #   - if tokenizer.adds_bos and tokenizer.bos_id is not None and ids[:1] != [tokenizer.bos_id]:
    #   + if False:
    if tokenizer.adds_bos and tokenizer.bos_id is not None and ids[:1] != [tokenizer.bos_id]:
        ids.insert(0, tokenizer.bos_id)
    return ids


class Shield:
    """Puts a mark inside every control token that a message spells, so that it is told from one the template writes.

    The mark goes in before rendering, because afterwards nobody can tell whose text is whose; templates see ordinary
    strings, and only those that spell a control token differ. Tags that are not special (`</think>`) are left alone in
    what an assistant said, since templates look for them there.
    """

    def __init__(self, tokenizer: Vocabulary, mark: str) -> None:
        self.mark, self.used = mark, ""
        controls = {text: token for text, token in tokenizer.special_tokens.items() if len(text) > 1}
        self.every = _any_of(controls)
        self.special = _any_of(text for text, token in controls.items() if tokenizer.is_special(token))

    def message(self, message: Message) -> Any:
        assistant = isinstance(message, Mapping) and message.get("role") == "assistant"
        return self._walk(message, self.special if assistant else self.every)

    def all(self, values: Any) -> Any:
        return self._walk(values, self.every)

    def _walk(self, value: Any, controls: re.Pattern[str] | None) -> Any:
        if isinstance(value, str):
            return self._marked(value, controls)
        if isinstance(value, Mapping):
            return {key: self._walk(inner, controls) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._walk(inner, controls) for inner in value]
        return value

    def _marked(self, text: str, controls: re.Pattern[str] | None) -> str:
        # guard[user-text-shielded]: without the mark a user who types the end of a turn ends the turn
        # origin: huggingface/transformers#29279
        # mutant[user-text-shielded/removed]:
        #   - while controls is not None and (found := controls.search(text)):
        #   + while controls is None and (found := re.search("$", text)):
        # mutant[user-text-shielded/first-only]:
        #   - while controls is not None and (found := controls.search(text)):
        #   + if controls is not None and (found := controls.search(text)):
        while controls is not None and (found := controls.search(text)):
            self.used = found.group()
            # One control token may lie inside another, so the search goes on in what has been marked already.
            text = text[: found.start() + 1] + self.mark + text[found.start() + 1 :]
        return text


def _any_of(spellings: Any) -> re.Pattern[str] | None:
    ordered = sorted(spellings, key=len, reverse=True)
    return re.compile("|".join(re.escape(text) for text in ordered)) if ordered else None


def _refuse_broken_marks(text: str, mark: str, where: str) -> None:
    """A template that cuts strings by length may cut a mark in two; then text cannot be told from control tokens."""
    rest = text.replace(mark, "")
    half = MARK_DIGITS // 2
    if mark[:half] in rest or mark[half:] in rest:
        raise TemplateError(f"{where}: cuts a message that spells a control token; take it out of the message")
