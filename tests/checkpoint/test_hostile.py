"""Damaged model directories and files, each with one thing wrong: a typed error of one line, exit code 2, little
memory, no partial model. The finer tables of headers, indexes and configs stand in the tests beside this one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teachkv.checkpoint import load_model
from teachkv.errors import TeachKVError
from teachkv.text import load_tokenizer
from tests.gguf_toys import ARRAY, F32, I32, STRING, U32, gguf_bytes, tiny_gguf, tiny_keys
from tests.toys import save_safetensors, tiny_config, tiny_tensors, with_header, write_tiny

Damage = Callable[[Path], None]
WEIGHTS, CONFIG, INDEX = "model.safetensors", "config.json", "model.safetensors.index.json"
SHARD = "model-00001-of-00002.safetensors"


def replaced(name: str, content: bytes) -> Damage:
    return lambda folder: void((folder / name).write_bytes(content))


def cut(name: str, share: float) -> Damage:
    return lambda folder: os.truncate(folder / name, int((folder / name).stat().st_size * share))


def grown(name: str, count: int) -> Damage:
    return lambda folder: void((folder / name).write_bytes((folder / name).read_bytes() + bytes(count)))


def gone(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def flipped(name: str, place: int) -> Damage:
    def change(folder: Path) -> None:
        raw = bytearray((folder / name).read_bytes())
        raw[place] ^= 0xFF
        (folder / name).write_bytes(bytes(raw))

    return change


def setting(**changes: Any) -> Damage:
    return lambda folder: void((folder / CONFIG).write_text(json.dumps(tiny_config() | changes)))


def header(change: Callable[[dict[str, Any]], None]) -> Damage:
    def apply(folder: Path) -> None:
        raw = (folder / WEIGHTS).read_bytes()
        length = int.from_bytes(raw[:8], "little")
        table = json.loads(raw[8 : 8 + length])
        change(table)
        (folder / WEIGHTS).write_bytes(with_header(table, raw[8 + length :]))

    return apply


def tensors(change: Callable[[dict[str, Any]], None]) -> Damage:
    def apply(folder: Path) -> None:
        table = tiny_tensors(tiny_config())
        change(table)
        save_safetensors(folder / WEIGHTS, table)

    return apply


def void(_: object) -> None:
    """Drop a value."""


def fifo(name: str) -> Damage:
    def apply(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return apply


def fifo_of(name: str) -> Damage:
    return lambda folder: os.mkfifo(folder / name)


def linked(name: str) -> Damage:
    def apply(folder: Path) -> None:
        (folder / name).rename(folder.parent / f"{folder.name}.elsewhere")
        (folder / name).symlink_to(folder.parent / f"{folder.name}.elsewhere")

    return apply


NORM, EMBED = "model.norm.weight", "model.embed_tokens.weight"
SINGLE: dict[str, Damage] = {
    "config gone": gone(CONFIG),
    "config empty": replaced(CONFIG, b""),
    "config cut": cut(CONFIG, 0.5),
    "config a list": replaced(CONFIG, b"[]"),
    "config binary": replaced(CONFIG, bytes(range(256))),
    "config huge": replaced(CONFIG, b'{"a": "' + b"x" * (5 << 20) + b'"}'),
    "config deep": replaced(CONFIG, b'{"a":' * 100_000),
    "config a pipe": fifo(CONFIG),
    "config a link outwards": linked(CONFIG),
    "config key twice": replaced(CONFIG, b'{"vocab_size": 97, "vocab_size": 98}'),
    "generation config garbled": replaced("generation_config.json", b"{"),
    "architecture unknown": setting(architectures=["MysteryForCausalLM"]),
    "family contradiction": setting(model_type="qwen2"),
    "vocabulary negative": setting(vocab_size=-97),
    "vocabulary too large": setting(vocab_size=98),
    "hidden a string": setting(hidden_size="32"),
    "a billion layers": setting(num_hidden_layers=10**9),
    "one layer too many": setting(num_hidden_layers=3),
    "one layer too few": setting(num_hidden_layers=1),
    "heads zero": setting(num_attention_heads=0),
    "heads wrong": setting(num_attention_heads=8),
    "kv heads wrong": setting(num_key_value_heads=4),
    "head_dim odd": setting(head_dim=7),
    "head_dim wrong": setting(head_dim=16),
    "rope unknown": setting(rope_scaling={"rope_type": "spiral", "factor": 2.0}),
    "rope bases disagree": setting(rope_parameters={"rope_theta": 5e5}),
    "activation unknown": setting(hidden_act="gelu"),
    "eps zero": setting(rms_norm_eps=0.0),
    "biases missing": setting(attention_bias=True),
    "tying contradicts": setting(tie_word_embeddings=True),
    "sliding without window": setting(layer_types=["sliding_attention"] * 2),
    "quantised": setting(quantization_config={"bits": 4}),
    "weights gone": gone(WEIGHTS),
    "weights empty": replaced(WEIGHTS, b""),
    "weights a pipe": fifo(WEIGHTS),
    "weights a link outwards": linked(WEIGHTS),
    "weights cut in the header": cut(WEIGHTS, 0.01),
    "weights cut in half": cut(WEIGHTS, 0.5),
    "weights one byte short": lambda folder: os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size - 1),
    "weights one byte long": grown(WEIGHTS, 1),
    "weights zeros": replaced(WEIGHTS, bytes(4096)),
    "weights a pickle": replaced(WEIGHTS, b"\x80\x04\x95" + bytes(100)),
    "header length flipped": flipped(WEIGHTS, 4),
    "header first byte": flipped(WEIGHTS, 8),
    "dtype unknown": header(lambda table: table[NORM].update(dtype="F33")),
    "dtype integer": header(lambda table: table[NORM].update(dtype="I32")),
    "shape too large": header(lambda table: table[NORM].update(shape=[10**6, 10**6])),
    "shape negative": header(lambda table: table[NORM].update(shape=[-32])),
    "offsets swapped": header(lambda table: table[NORM]["data_offsets"].reverse()),
    "offsets moved": header(lambda table: table[NORM].update(data_offsets=[0, 128])),
    "entry dropped": header(lambda table: table.pop(NORM)),
    "entry renamed": header(lambda table: table.update({"norm": table.pop(NORM)})),
    "metadata of numbers": header(lambda table: table.update(__metadata__={"a": 1})),
    "embedding missing": tensors(lambda table: table.pop(EMBED)),
    "norm missing": tensors(lambda table: table.pop(NORM)),
    "v missing": tensors(lambda table: table.pop("model.layers.1.self_attn.v_proj.weight")),
    "q transposed": tensors(lambda table: table.update({EMBED: np.ascontiguousarray(table[EMBED].T)})),
    "extra bias": tensors(
        lambda table: table.update({"model.layers.0.self_attn.q_proj.bias": np.ones(32, np.float32)})
    ),
    "extra layer": tensors(lambda table: table.update({"model.layers.7.mlp.up_proj.weight": np.ones(1, np.float32)})),
}
SHARDED: dict[str, Damage] = {
    "index garbled": replaced(INDEX, b"{"),
    "index without map": replaced(INDEX, b"{}"),
    "index gone": gone(INDEX),
    "index a pipe": fifo(INDEX),
    "index points up": replaced(INDEX, b'{"weight_map": {"a": "../a.safetensors"}}'),
    "index points to root": replaced(INDEX, b'{"weight_map": {"a": "/etc/passwd"}}'),
    "index names a ghost": replaced(INDEX, b'{"weight_map": {"a": "ghost.safetensors"}}'),
    "index names the config": replaced(INDEX, b'{"weight_map": {"a": "config.json"}}'),
    "shard gone": gone(SHARD),
    "shard cut": cut(SHARD, 0.9),
    "shard a link outwards": linked(SHARD),
    "shard the other one's": lambda folder: void(
        (folder / SHARD).write_bytes((folder / "model-00002-of-00002.safetensors").read_bytes())
    ),
}
TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
TEXT: dict[str, Damage] = {
    "tokenizer empty": replaced(TOKENIZER, b""),
    "tokenizer cut": cut(TOKENIZER, 0.5),
    "tokenizer binary": replaced(TOKENIZER, bytes(range(256))),
    "tokenizer deep": replaced(TOKENIZER, b'{"a":' * 100_000),
    "tokenizer a list": replaced(TOKENIZER, b"[]"),
    "tokenizer without a model": replaced(TOKENIZER, b'{"version": "1.0"}'),
    "tokenizer too large": grown(TOKENIZER, 65 << 20),
    "tokenizer a pipe": fifo(TOKENIZER),
    "tokenizer a link outwards": linked(TOKENIZER),
    "settings garbled": replaced(SETTINGS, b"{"),
    "settings a list": replaced(SETTINGS, b"[1]"),
    "settings deep": replaced(SETTINGS, b'{"a":' * 100_000),
    "settings no UTF-8": replaced(SETTINGS, b'{"a": "\xff"}'),
    "settings half a character": replaced(SETTINGS, b'{"eos_token": "\\ud800"}'),
    "settings name a number": replaced(SETTINGS, b'{"eos_token": 3}'),
    "template a number": replaced(SETTINGS, b'{"chat_template": 7}'),
    "template without a name": replaced(SETTINGS, b'{"chat_template": [{"template": "x"}]}'),
    "template no UTF-8": replaced("chat_template.jinja", b"\xff\xfe"),
    "template too large": replaced("chat_template.jinja", bytes(65 << 20)),
    "template a pipe": fifo_of("chat_template.jinja"),
}
KEYS = tiny_keys(tiny_config(num_hidden_layers=1, tie_word_embeddings=True))
BLOCK = ("token_embd.weight", [32, 97], 0, bytes(4 * 32 * 97))
GOOD = tiny_gguf(hidden_size=32, intermediate_size=32, head_dim=8, num_hidden_layers=1)[0]


def keys(*more: Any) -> bytes:
    return gguf_bytes([key for key in KEYS if key[0] not in {new[0] for new in more}] + list(more), [BLOCK])


GGUF: dict[str, bytes] = {
    "empty": b"",
    "other magic": b"GGJT" + GOOD[4:],
    "big-endian": b"GGUF\0\0\0\3" + GOOD[8:],
    "cut in the keys": GOOD[:700],
    "cut in the data": GOOD[:-2000],
    "trailing bytes": GOOD + bytes(64),
    "many tensors": GOOD[:8] + b"\xff" * 8 + GOOD[16:],
    "many keys": GOOD[:16] + b"\xff" * 8 + GOOD[24:],
    "first key endless": GOOD[:24] + b"\xff" * 8 + GOOD[32:],
    "architecture unknown": keys(("general.architecture", STRING, "rwkv")),
    "layers a billion": keys(("llama.block_count", U32, 10**9)),
    "heads zero": keys(("llama.attention.head_count", U32, 0)),
    "eps a string": keys(("llama.attention.layer_norm_rms_epsilon", STRING, "1e-5")),
    "eps not a number": keys(("llama.attention.layer_norm_rms_epsilon", F32, float("nan"))),
    "splitting rule unknown": keys(("tokenizer.ggml.pre", STRING, "mystery")),
    "tokens twice": keys(("tokenizer.ggml.tokens", ARRAY, (STRING, ["a"] * 97))),
    "types too few": keys(("tokenizer.ggml.token_type", ARRAY, (I32, [1]))),
    "merges of nothing": keys(("tokenizer.ggml.merges", ARRAY, (STRING, ["zz yy"]))),
    "eos outside": keys(("tokenizer.ggml.eos_token_id", U32, 10**6)),
    "alignment odd": keys(("general.alignment", U32, 3)),
    "tensors missing": keys(),
    "embedding empty": gguf_bytes(KEYS, [("token_embd.weight", [32, 0], 0, b"")]),
    "embedding of five dimensions": gguf_bytes(KEYS, [("token_embd.weight", [1] * 5, 0, bytes(4))]),
    "embedding type unknown": gguf_bytes(KEYS, [("token_embd.weight", [32, 97], 77, bytes(4 * 32 * 97))]),
    "embedding too large": gguf_bytes(KEYS, [("token_embd.weight", [2**40, 2**40], 0, bytes(64))]),
}


def build(root: Path) -> dict[str, Path]:
    """Every damaged model, by name."""
    places = {}
    for kind, table, shards in (("single", SINGLE, 1), ("sharded", SHARDED, 2), ("text", TEXT, 1)):
        for number, (name, damage) in enumerate(table.items()):
            folder = write_tiny(root / f"{kind}{number:02d}", shards=shards)
            damage(folder)
            places[f"{kind}: {name}"] = folder
    for number, (name, raw) in enumerate(GGUF.items()):
        path = root / f"file{number:02d}.gguf"
        path.write_bytes(raw)
        places[f"gguf: {name}"] = path
    return places


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build(tmp_path_factory.mktemp("hostile"))


NAMES = [
    f"{kind}: {name}"
    for kind, table in (("single", SINGLE), ("sharded", SHARDED), ("text", TEXT), ("gguf", GGUF))
    for name in table
]


def test_there_are_enough_and_the_undamaged_ones_load(tmp_path: Path) -> None:
    assert len(NAMES) >= 110
    (tmp_path / "good.gguf").write_bytes(GOOD)
    for place in (write_tiny(tmp_path / "a"), write_tiny(tmp_path / "b", shards=2), tmp_path / "good.gguf"):
        assert load_model(place).weights.embed.shape == (97, 32)


def whole(place: Path) -> None:
    """Weights and texts, as an engine reads them."""
    loaded = load_model(place)
    load_tokenizer(loaded.tokenizer_source, loaded.template_source)


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_a_typed_error_of_one_line_that_names_the_place(damaged: dict[str, Path], name: str) -> None:
    with pytest.raises(TeachKVError) as told:
        whole(damaged[name])
    message = str(told.value)
    assert "\n" not in message
    assert len(message) < 500
    assert str(damaged[name]) in message or "generation_config.json" in message


COMMAND = """
import io, sys, json
from contextlib import redirect_stderr, redirect_stdout
from teachkv.cli import main
import teachkv.checkpoint.gguf_load, teachkv.checkpoint.inspect, gguf.quants, teachkv.loading, teachkv.assembly
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
before = peak()
for place in sys.argv[1:]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["inspect", place])
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_the_command_line_ends_with_2_and_one_line_in_under_200_megabytes(damaged: dict[str, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, damaged.values())], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *results, grown = done.stdout.splitlines()
    assert len(results) == len(damaged)
    for name, line in zip(damaged, results, strict=True):
        code, out, err = json.loads(line)
        assert (code, out, err.count("\n")) == (2, "", 1), (name, err)
        assert err.startswith("teachkv inspect: "), (name, err)
    assert int(grown) < 200_000  # KiB
