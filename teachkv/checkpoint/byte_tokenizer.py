"""A tokenizer.json in which each byte is one token, for models without a vocabulary of their own."""

import json

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
BYTE_VOCAB = 256 + len(SPECIALS)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def byte_tokenizer_files(chat_template: str | None) -> dict[str, str]:
    """tokenizer.json, tokenizer_config.json and, where given, the chat template. Token b is byte b; specials follow."""
    vocab = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
    specials = {token: 256 + index for index, token in enumerate(SPECIALS)}
    files = {
        "tokenizer.json": json.dumps(tokenizer_json(vocab | specials, [], specials)),
        "tokenizer_config.json": json.dumps({"eos_token": SPECIALS[0], "bos_token": None, "add_bos_token": False}),
    }
    if chat_template is not None:
        files["chat_template.jinja"] = chat_template
    return files


def tokenizer_json(vocab: dict[str, int], merges: list[str], specials: dict[str, int]) -> dict[str, object]:
    """A byte-level BPE without any splitting before it."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(number, token, special=True) for token, number in specials.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
        },
    }


def added_token(number: int, token: str, *, special: bool) -> dict[str, object]:
    """One entry of `added_tokens`: found in text before anything is split, and taken whole."""
    return {
        "id": number,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def byte_symbols() -> list[str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table).

    Printable Latin-1 bytes stand for themselves; the rest take the characters from U+0100 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    table = {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]
