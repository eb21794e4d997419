"""TINY as GGUF, byte by byte from the format's description. Shares no code with the reader or with the gguf package.

`pack` draws the integers of a block first and computes the floats from them, with scales that are powers of two: so the
expected weights are exact.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.toys import tiny_config, tiny_tensors

TYPE_IDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
QUANTISED = tuple(TYPE_IDS)
U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
FORMS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q", 11: "<q", 12: "<d"}
Floats = NDArray[np.float32]
Key = tuple[str, int, Any]
Record = tuple[str, list[int], int, bytes]


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(kind: int, value: Any) -> bytes:
    """A value; an array is (element type, list)."""
    if kind == STRING:
        return text(value)
    if kind == ARRAY:
        inner, items = value
        return struct.pack("<IQ", inner, len(items)) + b"".join(value_bytes(inner, item) for item in items)
    return struct.pack(FORMS[kind], value)


def key_bytes(key: Key) -> bytes:
    name, kind, value = key
    return text(name) + struct.pack("<I", kind) + value_bytes(kind, value)


def gguf_bytes(keys: list[Key], tensors: list[Record], *, alignment: int = 32, version: int = 3) -> bytes:
    """A whole file. Tensors are (name, dims with columns first, type id, data)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(map(key_bytes, keys))
    data = b""
    for name, dims, kind, raw in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += raw + bytes(-len(raw) % alignment)
    return head + bytes(-len(head) % alignment) + data


def pack(dtype: str, values: Floats, random: np.random.Generator) -> tuple[bytes, Floats]:
    """(bytes, the weights they stand for). Float types round `values`; block types draw weights of their own."""
    if dtype == "F32":
        return values.astype("<f4").tobytes(), values
    if dtype == "F16":
        return values.astype("<f2").tobytes(), values.astype(np.float16).astype(np.float32)
    if dtype == "BF16":
        bits = (np.ascontiguousarray(values).view("<u4") >> 16).astype("<u2")
        return bits.tobytes(), (bits.astype(np.uint32) << 16).view(np.float32).reshape(values.shape)
    size = {"Q4_K": 256, "Q6_K": 256}.get(dtype, 32)
    drawn = [PACKERS[dtype](random) for _ in range(64)]
    blocks = [drawn[index] for index in random.integers(0, len(drawn), values.size // size)]
    weights = np.concatenate([weight for _, weight in blocks]).reshape(values.shape)
    return b"".join(raw for raw, _ in blocks), weights


def scale(random: np.random.Generator) -> float:
    return float(2.0 ** random.integers(-9, -5))


def nibbles(codes: NDArray[Any]) -> bytes:
    """32 codes: the first half in the low nibbles, the second in the high ones."""
    return bytes(int(low) | int(high) << 4 for low, high in zip(codes[:16], codes[16:], strict=True))


def q8_0(random: np.random.Generator) -> tuple[bytes, Floats]:
    d, codes = scale(random), random.integers(-127, 128, 32)
    return struct.pack("<e", d) + codes.astype(np.int8).tobytes(), (d * codes).astype(np.float32)


def q4_0(random: np.random.Generator) -> tuple[bytes, Floats]:
    d, codes = scale(random), random.integers(0, 16, 32)
    return struct.pack("<e", d) + nibbles(codes), (d * (codes - 8)).astype(np.float32)


def q4_1(random: np.random.Generator) -> tuple[bytes, Floats]:
    d, low, codes = scale(random), -scale(random), random.integers(0, 16, 32)
    return struct.pack("<ee", d, low) + nibbles(codes), (d * codes + low).astype(np.float32)


def q4_k(random: np.random.Generator) -> tuple[bytes, Floats]:
    """8 runs of 32 weights: d * scale * code - dmin * least, scale and least of 6 bits packed into 12 bytes."""
    d, dmin = scale(random), scale(random)
    scales, least, codes = random.integers(0, 64, 8), random.integers(0, 64, 8), random.integers(0, 16, (8, 32))
    packed = [0] * 12
    for run in range(4):
        packed[run] = int(scales[run]) | int(scales[run + 4]) >> 4 << 6
        packed[run + 4] = int(least[run]) | int(least[run + 4]) >> 4 << 6
        packed[run + 8] = int(scales[run + 4]) & 15 | (int(least[run + 4]) & 15) << 4
    raw = b"".join(
        bytes(int(low) | int(high) << 4 for low, high in zip(codes[2 * pair], codes[2 * pair + 1], strict=True))
        for pair in range(4)
    )
    weights = d * scales[:, None] * codes - dmin * least[:, None]
    return struct.pack("<ee", d, dmin) + bytes(packed) + raw, weights.astype(np.float32).reshape(-1)


def q6_k(random: np.random.Generator) -> tuple[bytes, Floats]:
    """16 runs of 16 weights: d * scale * (code - 32); low 4 bits and high 2 bits of the codes lie apart."""
    d, scales, codes = scale(random), random.integers(-128, 128, 16), random.integers(0, 64, 256)
    low, high = bytearray(128), bytearray(64)
    for half in range(2):
        for place in range(32):
            four = [int(codes[128 * half + 32 * part + place]) for part in range(4)]
            low[64 * half + place] = four[0] & 15 | (four[2] & 15) << 4
            low[64 * half + 32 + place] = four[1] & 15 | (four[3] & 15) << 4
            high[32 * half + place] = sum((code >> 4) << 2 * part for part, code in enumerate(four))
    weights = d * np.repeat(scales, 16) * (codes - 32)
    return bytes(low) + bytes(high) + scales.astype(np.int8).tobytes() + struct.pack("<e", d), weights.astype(
        np.float32
    )


PACKERS = {"Q8_0": q8_0, "Q4_0": q4_0, "Q4_1": q4_1, "Q4_K": q4_k, "Q6_K": q6_k}

NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{kind}"
    _, _, layer, inner = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[inner]}.{kind}"


def neighbours_first(tensor: Floats, heads: int) -> Floats:
    """Rows from halves (i, i + D/2) to pairs side by side, as the converter of llama models stores q and k."""
    dim = tensor.shape[0] // heads
    order = [
        head * dim + part * dim // 2 + pair for head in range(heads) for pair in range(dim // 2) for part in (0, 1)
    ]
    return np.ascontiguousarray(tensor[order])


def tiny_gguf(
    family: str = "llama", dtype: str = "F32", *, seed: int = 0, rope_freqs: list[float] | None = None, **changes: Any
) -> tuple[bytes, dict[str, Any], dict[str, Floats]]:
    """(file, config.json of the same model, its weights in Hugging Face order). Matrices are of type `dtype`."""
    sizes = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64, "eos_token_id": [1]}
    config = tiny_config(family, **(sizes | changes))
    random, tensors, records = np.random.default_rng(seed), {}, []
    for name, tensor in tiny_tensors(config, seed=seed).items():
        raw, tensors[name] = pack(dtype if tensor.ndim == 2 else "F32", tensor, random)
        stored = tensors[name]
        if family in ("llama", "mistral") and (".q_proj." in name or ".k_proj." in name):
            heads = config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"]
            back = neighbours_first(np.arange(len(stored), dtype=np.float32), heads).astype(int)
            raw = b"".join(raw[row * len(raw) // len(back) : (row + 1) * len(raw) // len(back)] for row in back)
        kind = TYPE_IDS[dtype if tensor.ndim == 2 else "F32"]
        records.append((gguf_name(name), list(reversed(tensor.shape)), kind, raw))
    if rope_freqs is not None:
        records.append(("rope_freqs.weight", [len(rope_freqs)], 0, np.array(rope_freqs, "<f4").tobytes()))
    return gguf_bytes(tiny_keys(config), records), config, tensors


def tiny_keys(config: dict[str, Any]) -> list[Key]:
    family = config["model_type"]
    arch = "llama" if family == "mistral" else family
    keys: list[Key] = [
        ("general.architecture", STRING, arch),
        (f"{arch}.block_count", U32, config["num_hidden_layers"]),
        (f"{arch}.context_length", U32, config["max_position_embeddings"]),
        (f"{arch}.embedding_length", U32, config["hidden_size"]),
        (f"{arch}.feed_forward_length", U32, config["intermediate_size"]),
        (f"{arch}.attention.head_count", U32, config["num_attention_heads"]),
        (f"{arch}.attention.head_count_kv", U32, config["num_key_value_heads"]),
        (f"{arch}.attention.key_length", U32, config["head_dim"]),
        (f"{arch}.attention.value_length", U32, config["head_dim"]),
        (f"{arch}.attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"]),
        (f"{arch}.rope.freq_base", F32, config["rope_theta"]),
    ]
    if config.get("sliding_window"):
        keys.append((f"{arch}.attention.sliding_window", U32, config["sliding_window"]))
    return keys + vocabulary_keys()


def vocabulary_keys() -> list[Key]:
    """97 tokens: two control tokens and the printable ASCII characters, a space spelt as byte-level BPE spells it."""
    tokens = ["<bos>", "<eos>"] + ["\u0120" if code == 0x20 else chr(code) for code in range(0x20, 0x7F)]
    return [
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [3, 3] + [1] * 95)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, [])),
        ("tokenizer.ggml.bos_token_id", U32, 0),
        ("tokenizer.ggml.eos_token_id", U32, 1),
        ("tokenizer.chat_template", STRING, "{% for m in messages %}{{ m['content'] }}{% endfor %}"),
    ]


def write_gguf(path: Path, family: str = "llama", dtype: str = "F32", **changes: Any) -> Path:
    path.write_bytes(tiny_gguf(family, dtype, **changes)[0])
    return path
