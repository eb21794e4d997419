"""What people bring as a prompt, brought to one form: text (or None) and token ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any, TypedDict

from teachkv.errors import RequestError

if TYPE_CHECKING:
    from teachkv.text import AnyTokenizer

Message = Mapping[str, Any]
Prompt = str | Sequence[int] | Sequence[Message] | Mapping[str, Any]


class ChatOptions(TypedDict, total=False):
    """How a conversation becomes a prompt; see `LLM.chat_prompt`."""

    tools: Sequence[Mapping[str, Any]] | None
    documents: Sequence[Mapping[str, Any]] | None
    variables: Mapping[str, Any] | None
    template_name: str | None
    add_generation_prompt: bool | None
    continue_final_message: bool | str


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """`text` is None when the caller brought token ids."""

    text: str | None
    ids: tuple[int, ...]


def as_list(prompts: Any) -> tuple[list[Any], bool]:
    """(list of prompts, whether the caller brought one prompt only).

    One prompt is a string, a mapping, a sequence of numbers or a sequence of chat messages; anything else is many.
    """
    if isinstance(prompts, (str, Mapping)):
        return [prompts], True
    items = listed(prompts, "the prompts")
    if items and (isinstance(items[0], Number) or is_message(items[0])):
        return [items], True
    return items, False


def parse_prompt(prompt: Any, where: str, tokenizer: "AnyTokenizer", vocab_size: int) -> ParsedPrompt:
    """Raises RequestError, naming `where` (which prompt), for anything that is not a prompt."""
    if isinstance(prompt, str):
        return checked(prompt, tokenizer.encode(prompt), where, vocab_size)
    if isinstance(prompt, Mapping):
        return parse_mapping(prompt, where, tokenizer, vocab_size)
    items = listed(prompt, where)
    if items and all(is_message(item) for item in items):
        return checked(None, tokenizer.chat_ids(items), where, vocab_size)
    return parse_ids(items, where, vocab_size)


def parse_ids(items: Any, where: str, vocab_size: int) -> ParsedPrompt:
    ids = listed(items, where)
    if not all(is_id(item) for item in ids):
        raise RequestError(
            f"{where}: mixes kinds; bring text, token ids (whole numbers) or chat messages (role, content)"
        )
    return checked(None, ids, where, vocab_size)


def parse_mapping(prompt: Mapping[str, Any], where: str, tokenizer: "AnyTokenizer", vocab_size: int) -> ParsedPrompt:
    """vLLM's mapping forms: {"prompt": text} and {"prompt_token_ids": ids}, the latter with the text if wanted."""
    keys, text = set(prompt), prompt.get("prompt")
    if keys == {"prompt"} and isinstance(text, str):
        return parse_prompt(text, where, tokenizer, vocab_size)
    if keys in ({"prompt_token_ids"}, {"prompt_token_ids", "prompt"}) and (text is None or isinstance(text, str)):
        return ParsedPrompt(text, parse_ids(prompt["prompt_token_ids"], where, vocab_size).ids)
    raise RequestError(
        f"{where}: keys {sorted(map(str, keys))}; use 'prompt' (text), 'prompt_token_ids', or a list of messages"
    )


def listed(items: Any, where: str) -> list[Any]:
    """A sequence or an array as a list. Bytes are refused, since they could be meant as text or as ids."""
    if hasattr(items, "tolist"):
        items = items.tolist()
    if isinstance(items, (str, bytes, bytearray)) or not isinstance(items, Sequence):
        raise RequestError(f"{where}: is of type {type(items).__name__}; bring text, token ids or chat messages")
    return list(items)


def checked(text: str | None, ids: Sequence[int], where: str, vocab_size: int) -> ParsedPrompt:
    if not ids:
        raise RequestError(f"{where}: is empty; at least one token is needed")
    # guard[door-vocabulary]: an id outside the table would read another row's memory, or the wrong row, in silence
    # mutant[door-vocabulary/removed]:
    #   - bad = next((t for t in ids if not 0 <= t < vocab_size), None)
    #   + bad = None
    bad = next((t for t in ids if not 0 <= t < vocab_size), None)
    if bad is not None:
        raise RequestError(f"{where}: token id {bad} is outside the vocabulary 0..{vocab_size - 1}")
    return ParsedPrompt(text, tuple(int(t) for t in ids))


def is_id(item: Any) -> bool:
    """Whole numbers, NumPy's among them; truth values are none."""
    return isinstance(item, Integral) and not isinstance(item, bool)


def is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and "role" in item
