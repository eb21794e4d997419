"""Damage to one input, drawn from a seeded generator: bytes, numbers, JSON values, pieces of other inputs."""

import json
import random
import re
from typing import Any

HEADER = 6000  # bytes of a file that hold its structure
ODD = [b"0", b"-1", b"1e999", b"9" * 20, b"18446744073709551616", b"null", b"true", b"[]", b"{}", b'""', b"NaN", b"\n"]
ODD += [b"\x00", b"\xff", b"\x80", b'"default"', b"1.5", b"\xed\xa0\x80", b"\\ud800", b"{%", b"%}", b"{{", b"}}"]
NUMBERS = [0, 1, 2, 7, 8, 31, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**61, 2**63 - 1, 2**63, 2**64 - 1]
ATOMS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    1e308,
    2**31,
    2**63,
    10**30,
    "",
    "a",
    "\ud800",
    "\n",
    [],
    {},
    [[]],
]
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.<>|]{2,40}")


def damaged(raw: bytes, other: bytes, words: list[bytes], draw: random.Random) -> bytes:
    """`raw` after a few changes. `other` lends pieces; `words` are names that the readers know."""
    if draw.random() < 0.5 and (tree := changed_tree(raw, words, draw)) is not None:
        return tree
    found = bytearray(raw)
    for _ in range(few(draw)):
        draw.choice(CHANGES)(found, other, words, draw)
    return bytes(found)


def few(draw: random.Random) -> int:
    """Mostly one change: an input with many is refused for the first of them."""
    return draw.choice([1, 1, 1, 1, 2, 3, 5])


def place(found: bytearray, draw: random.Random) -> int:
    return draw.randrange(min(len(found), HEADER)) if found else 0


def one_byte(found: bytearray, other: bytes, words: list[bytes], draw: random.Random) -> None:
    if found:
        at = place(found, draw)
        found[at] = draw.choice([draw.randrange(256), found[at] ^ 1 << draw.randrange(8)])


def cut(found: bytearray, other: bytes, words: list[bytes], draw: random.Random) -> None:
    at = place(found, draw)
    del found[at : at + draw.choice([1, 2, 8, 16, 64, 10**6])]


def put(found: bytearray, other: bytes, words: list[bytes], draw: random.Random) -> None:
    at = place(found, draw)
    found[at:at] = draw.choice(ODD if draw.random() < 0.5 or not words else words)


def repeat(found: bytearray, other: bytes, words: list[bytes], draw: random.Random) -> None:
    at, begin = place(found, draw), place(found, draw)
    found[at:at] = found[begin : begin + draw.randint(1, 60)] * draw.choice([1, 1, 1, 50])


def splice(found: bytearray, other: bytes, words: list[bytes], draw: random.Random) -> None:
    at, begin, size = place(found, draw), place(bytearray(other), draw), draw.randint(1, 200)
    found[at : at + draw.choice([0, size])] = other[begin : begin + size]


def binary_number(found: bytearray, other: bytes, words: list[bytes], draw: random.Random) -> None:
    """A length, count or offset of a binary header."""
    at, size = place(found, draw), draw.choice([4, 8])
    found[at : at + size] = (draw.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")


def written_number(found: bytearray, other: bytes, words: list[bytes], draw: random.Random) -> None:
    at, end = place(found, draw), min(len(found), HEADER)
    start = next((spot for spot in range(at, end) if chr(found[spot]).isdigit()), at)
    stop = next((spot for spot in range(start, len(found)) if not chr(found[spot]).isdigit()), start)
    found[start:stop] = draw.choice([*ODD, str(draw.choice(NUMBERS)).encode()])


CHANGES = [one_byte, cut, put, repeat, splice, binary_number, written_number]


def changed_tree(raw: bytes, words: list[bytes], draw: random.Random) -> bytes | None:
    """Values of the JSON object changed, moved or dropped; None where `raw` holds none."""
    begin = 8 if raw[8:9] == b"{" else 0  # a safetensors header follows its length
    size = int.from_bytes(raw[:8], "little") if begin else len(raw)
    try:
        tree = json.loads(raw[begin : begin + size])
    except (ValueError, RecursionError):
        return None
    for _ in range(few(draw)):
        change_value(tree, words, draw)
    try:
        text = json.dumps(tree).encode()
    except (ValueError, RecursionError):
        return None
    return len(text).to_bytes(8, "little") + text + raw[8 + size :] if begin else text


def change_value(tree: Any, words: list[bytes], draw: random.Random) -> None:
    """Walk down to some value and put another in its place."""
    node = tree
    while isinstance(node, (dict, list)) and node:
        key = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
        if not isinstance(node[key], (dict, list)) or draw.random() < 0.25:
            change_at(node, key, words, draw)
            return
        node = node[key]


def change_at(node: Any, key: Any, words: list[bytes], draw: random.Random) -> None:
    kind = draw.randrange(5)
    word = draw.choice(words).decode("utf-8", "replace") if words else "a"
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        node[word] = node.pop(key)
    elif kind == 2:
        node[key] = word
    elif kind == 3:
        node[key] = node[draw.choice(list(node))] if isinstance(node, dict) else [node[key]] * draw.choice([2, 9])
    else:
        node[key] = draw.choice([*ATOMS, *NUMBERS])


def words_of(seeds: tuple[bytes, ...]) -> list[bytes]:
    """Names and keys in the seeds: what chance alone would not spell."""
    return sorted({word for seed in seeds for word in WORD.findall(seed[:HEADER])})
