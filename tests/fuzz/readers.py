"""The readers under fuzz: each takes the bytes of one file and returns, or raises a TeachKVError of one line."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teachkv.checkpoint import load_model
from teachkv.checkpoint.gguf_load import open_gguf
from teachkv.checkpoint.header import read_header
from teachkv.checkpoint.inspect import describe
from teachkv.checkpoint.shards import INDEX, open_safetensors
from teachkv.checkpoint.text_files import MemoryFiles
from teachkv.config import ModelConfig
from teachkv.text import ChatTemplate, Tokenizer, load_tokenizer
from tests.gguf_toys import ARRAY, F32, I32, STRING, U32, Key, gguf_bytes, tiny_gguf, vocabulary_keys
from tests.text.template_styles import CONVERSATIONS, NAMED, STYLES
from tests.text.toy_text import byte_level, sentencepiece, unigram, word_level
from tests.toys import char_tokenizer_files, write_tiny

TEXT = "a <s>b</s>é<|im_end|> \n\n  3333 it's \u0663 日本 🙂\x00"
SMALL = {"num_hidden_layers": 1}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 1e4}
LLAMA3 = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@dataclass(frozen=True)
class Reader:
    """`seeds` are whole inputs to begin with; `read` tries one; `words` are pieces that chance would not spell."""

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[bytes], None]
    words: tuple[bytes, ...] = ()


def all_readers(root: Path) -> list[Reader]:
    """Every reader of foreign bytes; their files lie under `root`."""
    return [*safetensors_readers(root), *config_readers(root), *text_readers(), *gguf_readers(root)]


def writing(path: Path, then: Callable[[], Any]) -> Callable[[bytes], None]:
    def read(raw: bytes) -> None:
        path.write_bytes(raw)
        then()

    return read


def safetensors_readers(root: Path) -> list[Reader]:
    single, sharded = write_tiny(root / "single", **SMALL), write_tiny(root / "sharded", shards=2, **SMALL)
    weights, index = single / "model.safetensors", sharded / INDEX
    half = write_tiny(root / "half", dtype="BF16", **SMALL) / "model.safetensors"
    seeds = (weights.read_bytes(), half.read_bytes())
    alone = root / "alone.safetensors"
    return [
        Reader("header", seeds, writing(alone, lambda: read_header(alone))),
        Reader("index", (index.read_bytes(),), writing(index, lambda: open_safetensors(sharded))),
        Reader("weights", seeds, writing(weights, lambda: describe(load_model(single)))),
    ]


def config_readers(root: Path) -> list[Reader]:
    changes: list[tuple[str, dict[str, Any]]] = [
        ("llama", {"rope_scaling": LLAMA3}),
        ("mistral", {"sliding_window": 16}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
        ("qwen3", {"rope_parameters": YARN, "rope_theta": None, "layer_types": ["full_attention"]}),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "tie_word_embeddings": None}),
    ]
    folders = [
        write_tiny(root / f"config{at}", family, generation={"eos_token_id": [1, 2]}, **SMALL, **more)
        for at, (family, more) in enumerate(changes)
    ]
    config, generation = folders[0] / "config.json", folders[1] / "generation_config.json"
    configs = tuple((folder / "config.json").read_bytes() for folder in folders)
    generations = (generation.read_bytes(), b'{"eos_token_id": 1, "bos_token_id": 0, "pad_token_id": null}')
    return [
        Reader("config", configs, writing(config, lambda: ModelConfig.from_dir(folders[0]))),
        Reader("generation config", generations, writing(generation, lambda: ModelConfig.from_dir(folders[1]))),
    ]


def use(tokenizer: Tokenizer) -> None:
    """Both ways through a tokenizer; ids must be its own."""
    for parse in (False, True):
        ids = tokenizer.encode(TEXT, parse_special=parse)
        assert all(0 <= token < tokenizer.vocab_size for token in ids), "an id outside the vocabulary"
        tokenizer.decode(ids)
    if tokenizer.chat_template is not None:
        tokenizer.chat_ids([{"role": "user", "content": TEXT}])


def text_readers() -> list[Reader]:
    made = (byte_level(bos="<|endoftext|>"), sentencepiece(bos="<s>"), unigram(), word_level())
    tokenizers = tuple(inner.to_str().encode() for inner in made)
    plain = char_tokenizer_files()
    settings = [{"chat_template": [{"name": "default", "template": STYLES["chatml"]}], "add_bos_token": True}]
    settings += [{"bos_token": {"content": "<bos>"}, "pad_token": None, "unk_token": "<eos>"}]
    configs = (plain["tokenizer_config.json"].encode(), *(json.dumps(item).encode() for item in settings))

    def with_config(raw: bytes) -> None:
        files = {"tokenizer.json": plain["tokenizer.json"], "tokenizer_config.json": raw.decode("utf-8", "replace")}
        use(load_tokenizer(MemoryFiles("memory", files)))

    return [
        Reader("tokenizer", tokenizers, lambda raw: use(Tokenizer(raw, {"bos_token": "<s>"}))),
        Reader("tokenizer config", configs, with_config),
        Reader("template", tuple(style.encode() for style in STYLES.values()), render, PIECES),
    ]


PIECES = tuple(
    piece.encode()
    for piece in (
        *("{% for m in messages %}", "{% endfor %}", "{% if m %}", "{% else %}", "{% endif %}", "{% break %}"),
        *("{% macro f(a) %}", "{% endmacro %}", "{{ f(messages) }}", "{% call f(1) %}", "{% endcall %}"),
        *("{% set x = messages %}", "{% set x %}", "{% endset %}", "{% set n = namespace(a=1) %}", "{% set n.a = x %}"),
        *("{{ x ~ x }}", "{{ x * 99999 }}", "{{ 'a' * 10**9 }}", "{{ 9**9**9 }}", "{{ x | tojson(indent=9) }}"),
        *("{{ range(99999999) | list }}", "{% for i in range(99999) %}", "{{ '%99999999d' | format(1) }}", "{#", "#}"),
        *("{{ ''.__class__.__mro__ }}", "{{ x.append(1) }}", "{{ cycler(1, 2).next() }}", "{{ joiner(x)() }}"),
        *("{{ x | map('upper') | join }}", "{{ x | groupby('role') }}", "{{ x | batch(9999) | list }}", "{% raw %}"),
        *("{{ 'ab'.replace('', x | string) }}", "{{ '{:>99999999}'.format(1) }}", "{{ x | indent(99999) }}"),
        *("{{ x | sum(attribute='role', start='') }}", "{{ x | xmlattr }}", "{{ x | slice(99999999) | list }}"),
        *("{% filter upper %}", "{% endfilter %}", "{% include 'a' %}", "{% extends 'a' %}", "{% block a %}"),
        *("{{ raise_exception(x) }}", "{{ strftime_now(x) }}", "{{ strftime_now('%' * 99) }}", "{{ self.a() }}"),
        *("{% generation %}", "{% endgeneration %}", "{{ loop(x) }}", "{% for a in x recursive %}", "{{ dict(x) }}"),
        *("{{ x | urlize }}", "{{ x | wordwrap(1) }}", "{{ x | pprint }}", "{{ x | random }}", "{{ x | sort }}"),
        *("{{ x | striptags }}", "{{ x | truncate(9**9) }}", "{{ x | filesizeformat }}", "{{ 1 / 0 }}", "{{ 1e999 }}"),
    )
)


def render(raw: bytes) -> None:
    """The template on a plain conversation, then on one with tools and null content."""
    template = ChatTemplate(raw.decode("utf-8", "replace"))
    template.render(CONVERSATIONS["many_turns"]["messages"], variables=NAMED, add_generation_prompt=True)
    case = CONVERSATIONS["null_content_with_call"]
    template.render(case["messages"], tools=case.get("tools"), variables=NAMED)


def gguf_readers(root: Path) -> list[Reader]:
    sizes = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 8, **SMALL}
    changes = (("llama", {}), ("qwen3", {}), ("mistral", {"sliding_window": 8}), ("qwen2", {}))
    whole = [tiny_gguf(family, "Q8_0", **sizes, **more)[0] for family, more in changes]
    texts = gguf_bytes([*keys_without_text(), *sentencepiece_keys()], [])
    path = root / "model.gguf"
    return [
        Reader("gguf", (*whole, texts), writing(path, lambda: open_gguf(path))),
        Reader("gguf whole", tuple(whole), writing(path, lambda: used(path))),
    ]


def used(path: Path) -> None:
    loaded = load_model(path)
    describe(loaded)
    use(load_tokenizer(loaded.tokenizer_source, loaded.template_source))


def keys_without_text() -> list[Key]:
    dropped = {key[0] for key in sentencepiece_keys()} | {"tokenizer.ggml.pre", "tokenizer.ggml.merges"}
    return [key for key in vocabulary_keys() if key[0] not in dropped]


def sentencepiece_keys() -> list[Key]:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b", "ab", "\u2581"]
    return [
        ("general.architecture", STRING, "llama"),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [2, 3, 3] + [6] * 256 + [1] * 4)),
        ("tokenizer.ggml.scores", ARRAY, (F32, [float(-number) for number in range(len(tokens))])),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.ggml.eos_token_id", U32, 2),
    ]
