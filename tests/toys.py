"""TINY: small model directories written by script. Shares no code with the loaders, so that it can judge them.

2-4 layers, hidden 32, 4 query heads, 2 KV heads, head_dim 8, vocabulary 97 (prime: no accidental alignment).
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
FAMILIES = tuple(ARCHITECTURES)
Tensors = dict[str, NDArray[Any]]


def tiny_config(family: str = "llama", **changes: Any) -> dict[str, Any]:
    """A config.json in v4 spelling. A change of None removes the key; use NULL for an explicit null."""
    config: dict[str, Any] = {
        "architectures": [ARCHITECTURES[family]],
        "model_type": family,
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    if family == "mistral":
        config["sliding_window"] = NULL
    config |= changes
    return {key: (None if value is NULL else value) for key, value in config.items() if value is not None}


class _Null:
    def __repr__(self) -> str:
        return "NULL"


NULL = _Null()


def tiny_tensors(config: dict[str, Any], *, seed: int = 0, head: bool | None = None) -> Tensors:
    """Random float32 weights under Hugging Face names. Biases follow the family and the flags of `config`."""
    random = np.random.default_rng(seed)
    hidden, inter, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    dim = config.get("head_dim") or hidden // config["num_attention_heads"]
    q_size, kv_size = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    family = config["model_type"]
    attention_bias = config.get("attention_bias", family == "qwen2")

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return (random.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    def vector(size: int, middle: float) -> NDArray[np.float32]:
        return (middle + 0.2 * random.standard_normal(size)).astype(np.float32)

    tensors: Tensors = {"model.embed_tokens.weight": random.standard_normal((vocab, hidden)).astype(np.float32)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = vector(hidden, 1.0)
        for name, rows, columns in (
            ("self_attn.q_proj", q_size, hidden),
            ("self_attn.k_proj", kv_size, hidden),
            ("self_attn.v_proj", kv_size, hidden),
            ("self_attn.o_proj", hidden, q_size),
            ("mlp.gate_proj", inter, hidden),
            ("mlp.up_proj", inter, hidden),
            ("mlp.down_proj", hidden, inter),
        ):
            tensors[f"{at}{name}.weight"] = matrix(rows, columns)
            in_mlp, is_o = name.startswith("mlp"), name.endswith("o_proj")
            biased = config.get("mlp_bias", False) if in_mlp else attention_bias and not (is_o and family == "qwen2")
            if biased:
                tensors[f"{at}{name}.bias"] = vector(rows, 0.3)
        if family == "qwen3":
            tensors[at + "self_attn.q_norm.weight"] = vector(dim, 1.0)
            tensors[at + "self_attn.k_norm.weight"] = vector(dim, 1.0)
        tensors[at + "post_attention_layernorm.weight"] = vector(hidden, 1.0)
    tensors["model.norm.weight"] = vector(hidden, 1.0)
    if head if head is not None else not config.get("tie_word_embeddings", False):
        tensors["lm_head.weight"] = matrix(vocab, hidden)
    return tensors


def write_tiny(
    folder: Path,
    family: str = "llama",
    *,
    seed: int = 0,
    dtype: str = "F32",
    shards: int = 1,
    head: bool | None = None,
    generation: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Write a whole model directory and return it. `changes` go to config.json (see tiny_config)."""
    config = tiny_config(family, **changes)
    write_folder(folder, config, tiny_tensors(config, seed=seed, head=head), dtype=dtype, shards=shards)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def write_folder(
    folder: Path, config: dict[str, Any], tensors: Tensors, *, dtype: str = "F32", shards: int = 1
) -> None:
    """config.json, a character tokenizer, and the tensors in one file or in `shards` files with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for name, text in char_tokenizer_files().items():
        (folder / name).write_text(text)
    if shards == 1:
        save_safetensors(folder / "model.safetensors", tensors, dtype=dtype)
        return
    names, weight_map = list(tensors), {}
    for number in range(shards):
        part = {name: tensors[name] for name in names[number::shards]}
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        save_safetensors(folder / file, part, dtype=dtype)
        weight_map |= dict.fromkeys(part, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def stored_bytes(tensor: NDArray[Any], dtype: str) -> bytes:
    """The tensor in file form. BF16 is cut off, not rounded: give it values that fit."""
    if dtype == "BF16":
        return (np.ascontiguousarray(tensor, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return np.ascontiguousarray(tensor, {"F32": "<f4", "F16": "<f2", "F64": "<f8"}[dtype]).tobytes()


def save_safetensors(path: Path, tensors: Tensors, *, dtype: str = "F32") -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        raw = stored_bytes(tensor, dtype)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    path.write_bytes(with_header(header, data))


def with_header(header: Any, data: bytes) -> bytes:
    """A safetensors file with this header, padded so that the data is aligned to 8 bytes. `header` may be raw bytes."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data


def char_tokenizer_files() -> dict[str, str]:
    """97 tokens: <bos>, <eos> and the 95 printable ASCII characters, one token each."""
    chars = [chr(code) for code in range(0x20, 0x7F)]
    specials = ["<bos>", "<eos>"]
    vocab = {token: number for number, token in enumerate(specials + chars)}
    added = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(specials)
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "unk_token": None, "vocab": vocab, "merges": []},
    }
    template = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '|' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
    )
    return {
        "tokenizer.json": json.dumps(tokenizer),
        "tokenizer_config.json": json.dumps({"bos_token": "<bos>", "eos_token": "<eos>", "chat_template": template}),
    }


def peak_growth(setup: str, work: str, *arguments: str) -> int:
    """KiB by which `work` raises the peak memory of a fresh process after `setup`. sys.argv holds the arguments.

    Read from /proc: getrusage would begin with the peak of the process that started this one.
    """
    peak = "int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    code = f"import sys\n{setup}\nbefore = {peak}\n{work}\nprint({peak} - before)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


@contextmanager
def refuses(error: type[Exception], match: str = "") -> Iterator[None]:
    """As pytest.raises, but any other exception is a failed assertion too: the kind of refusal is tested."""
    caught: Exception | None = None
    try:
        yield
    except Exception as problem:
        caught = problem
    assert isinstance(caught, error), f"{error.__name__} was due, not {caught!r}"
    assert re.search(match, str(caught)), str(caught)


def refusal(call: Callable[[], object], error: type[Exception]) -> str:
    """The message of the error that `call` must end with."""
    caught: Exception | None = None
    try:
        call()
    except Exception as problem:
        caught = problem
    assert isinstance(caught, error), f"{error.__name__} was due, not {caught!r}"
    return str(caught)
