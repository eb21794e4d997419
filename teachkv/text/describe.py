"""What a model's tokenizer and chat templates really are, in words: what nobody asked about and may trip over."""

import json
from collections.abc import Sequence

from teachkv.text.chat_template import ChatTemplate
from teachkv.text.file_tokenizer import Tokenizer, load_tokenizer
from teachkv.text.sources import TextFiles
from teachkv.text.template_places import passed_over


def describe_text(files: TextFiles, templates: TextFiles, *, vocab: int, context: int, eos_ids: Sequence[int]) -> str:
    """The lines of `teachkv inspect` about text. vocab: rows of the embedding; context: tokens; eos_ids: as the
    model's configs say.

    Raises TokenizerError for damaged files; a tokenizer that is missing altogether is said to be.
    """
    if files.read("tokenizer.json") is None:
        return _row("tokenizer", f"none: {files.where}: tokenizer.json is missing; the model cannot be run without it")
    tokenizer = load_tokenizer(files, templates)
    rows = [
        ("tokenizer", f"{tokenizer.vocab_size} tokens, {len(tokenizer.special_tokens)} of them control tokens"),
        ("plain text", f"begins with {_token(tokenizer, tokenizer.bos_id)}" if tokenizer.adds_bos else "stands alone"),
        ("ends", _ends(tokenizer, eos_ids)),
        ("template", _templates(tokenizer.chat_template, files)),
        *(("note", note) for note in _notes(tokenizer, templates, vocab, context)),
    ]
    return "\n".join(_row(label, text) for label, text in rows)


def _notes(tokenizer: Tokenizer, templates: TextFiles, vocab: int, context: int) -> list[str]:
    notes = [*_vocabulary_notes(tokenizer, vocab), *_token_notes(tokenizer), *_length_notes(tokenizer, context)]
    return notes + _template_notes(tokenizer.chat_template, templates)


def _row(label: str, text: str) -> str:
    return f"{label:<11} {text}"


def _token(tokenizer: Tokenizer, token: int | None) -> str:
    return "none" if token is None else f"{token} {tokenizer.token_text(token)!r}"


def _ends(tokenizer: Tokenizer, eos_ids: Sequence[int]) -> str:
    """Every id that ends an answer, with its text and whose word it is."""
    told = [(token, "config") for token in eos_ids]
    told += [(token, "tokenizer") for token in tokenizer.eos_ids if token not in eos_ids]
    return ", ".join(f"{_token(tokenizer, token)} ({source})" for token, source in told) or "none"


def _templates(template: ChatTemplate | None, files: TextFiles) -> str:
    if template is None:
        return "none: a chat is refused, plain prompts work"
    return f"{template.where.removeprefix(f'{files.where}: ')}: {template.names}"


def _vocabulary_notes(tokenizer: Tokenizer, vocab: int) -> list[str]:
    more = tokenizer.vocab_size - vocab
    if more > 0:
        return [f"the tokenizer has {more} tokens more than the embedding has rows: prompts that use them are refused"]
    return [f"{-more} rows of the embedding have no token: drawn, they are no text"] if more < 0 else []


def _token_notes(tokenizer: Tokenizer) -> list[str]:
    notes = [
        f"{name} {text[:40]!r} of tokenizer_config.json is not in the vocabulary: not used"
        for name, text in tokenizer.template_variables().items()
        if tokenizer.inner.token_to_id(text) is None
    ]
    asked = tokenizer.config.get("add_bos_token")
    if isinstance(asked, bool) and asked != tokenizer.adds_bos:
        does = "adds one" if tokenizer.adds_bos else "adds none"
        notes.append(f"add_bos_token is {str(asked).lower()} in tokenizer_config.json, but tokenizer.json {does}")
    return notes


def _length_notes(tokenizer: Tokenizer, context: int) -> list[str]:
    written = json.loads(tokenizer.raw)
    notes = [
        f"{name} in tokenizer.json is not used: prompts stay as long as they are"
        for name in ("truncation", "padding")
        if written.get(name) is not None
    ]
    most = tokenizer.config.get("model_max_length")
    if isinstance(most, int) and most < context:
        notes.append(f"model_max_length {most} of tokenizer_config.json is not used: the context is {context} tokens")
    return notes


def _template_notes(template: ChatTemplate | None, files: TextFiles) -> list[str]:
    if template is None:
        return []
    notes = [f"chat templates in {place} are not used: {used} comes first" for used, place in passed_over(files)]
    if "strftime_now" in template.source:
        notes.append("the chat template asks for the date: its prompts change from day to day")
    return notes
