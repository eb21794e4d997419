"""What people bring as a prompt, brought to one form: text (or None) and token ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from teachkv.errors import RequestError

if TYPE_CHECKING:
    from teachkv.text import AnyTokenizer

Message = Mapping[str, Any]
Prompt = str | Sequence[int] | Sequence[Message] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """`text` is None when the caller brought token ids."""

    text: str | None
    ids: tuple[int, ...]


def as_list(prompts: Any) -> tuple[list[Any], bool]:
    """(list of prompts, whether the caller brought one prompt only).

    One prompt is a string, a mapping, a sequence of ints or a sequence of chat messages; anything else is many.
    """
    if isinstance(prompts, (str, Mapping)):
        return [prompts], True
    if isinstance(prompts, (bytes, bytearray)) or not isinstance(prompts, Sequence):
        if hasattr(prompts, "tolist"):
            return as_list(prompts.tolist())
        raise RequestError(f"a prompt of type {type(prompts).__name__}: bring text, token ids or chat messages")
    items = list(prompts)
    if items and (is_id(items[0]) or is_message(items[0])):
        return [items], True
    return items, False


def parse_prompt(prompt: Any, where: str, tokenizer: "AnyTokenizer", vocab_size: int) -> ParsedPrompt:
    """Raises RequestError, naming `where` (which prompt), for anything that is not a prompt."""
    if isinstance(prompt, str):
        return checked(prompt, tokenizer.encode(prompt), where, vocab_size)
    if isinstance(prompt, Mapping):
        return parse_mapping(prompt, where, tokenizer, vocab_size)
    items = prompt.tolist() if hasattr(prompt, "tolist") else list(prompt)
    if items and all(is_message(item) for item in items):
        return checked(None, tokenizer.chat_ids(items), where, vocab_size)
    if all(is_id(item) for item in items):
        return checked(None, items, where, vocab_size)
    raise RequestError(f"{where}: mixes kinds; bring text, token ids (whole numbers) or chat messages (role, content)")


def parse_mapping(prompt: Mapping[str, Any], where: str, tokenizer: "AnyTokenizer", vocab_size: int) -> ParsedPrompt:
    """vLLM's mapping forms: {"prompt": text} and {"prompt_token_ids": ids}."""
    keys = set(prompt)
    if keys == {"prompt"} and isinstance(prompt["prompt"], str):
        return parse_prompt(prompt["prompt"], where, tokenizer, vocab_size)
    if keys in ({"prompt_token_ids"}, {"prompt_token_ids", "prompt"}):
        ids = parse_prompt(prompt["prompt_token_ids"], where, tokenizer, vocab_size).ids
        return ParsedPrompt(prompt.get("prompt"), ids)
    raise RequestError(f"{where}: keys {sorted(keys)}; use 'prompt' (text), 'prompt_token_ids', or a list of messages")


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
    return isinstance(item, int) and not isinstance(item, bool)


def is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and "role" in item
