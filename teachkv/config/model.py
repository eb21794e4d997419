"""ModelConfig: what a config.json means, read once, validated, and explained in notes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from teachkv.config.families import Family, family_of
from teachkv.config.other_keys import refuse_what_changes_the_model, unread_keys, unused_advice
from teachkv.config.reading import Fields, read_json
from teachkv.config.rope import RopeConfig
from teachkv.config.rope_reading import read_rope
from teachkv.config.token_ids import read_token_ids
from teachkv.config.windows import effective_windows

MAX_LAYERS = 2048  # a list of layers is built from this number
DTYPES = ("float32", "float16", "bfloat16", "float64")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The settings of one model as they take effect.

    `windows` holds one entry per layer: the number of keys a query sees including its own, or None. `max_position` is
    the usable context in tokens. `tie_embeddings` None means that config.json is silent; the loader puts the answer
    in. `notes` are the decisions that a reader of config.json alone could miss.
    """

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_eps: float
    max_position: int
    rope: RopeConfig
    windows: tuple[int | None, ...]
    tie_embeddings: bool | None
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    dtype: str
    eos_ids: tuple[int, ...]
    bos_id: int | None
    pad_id: int | None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        generation: Mapping[str, Any] | None = None,
        *,
        source: str = "config.json",
        rope_divisors: tuple[float, ...] | None = None,
    ) -> "ModelConfig":
        """Read a config.json (and generation_config.json) object, in v4 or v5 spelling. Raises ConfigError.

        `rope_divisors` are those that a GGUF file holds in place of a scaling kind, one per rotated pair.
        """
        return _read(Fields(data, source), generation, rope_divisors)

    @classmethod
    def from_dir(cls, path: str | Path) -> "ModelConfig":
        """Read config.json and, where present, generation_config.json of a model directory. Raises ConfigError."""
        folder = Path(path)
        data = read_json(folder / "config.json")
        extra = folder / "generation_config.json"
        generation = read_json(extra) if os.path.lexists(extra) else None
        return cls.from_dict(data, generation, source=str(folder / "config.json"))


def _read(fields: Fields, generation: Mapping[str, Any] | None, rope_divisors: tuple[float, ...] | None) -> ModelConfig:
    family = family_of(fields)
    refuse_what_changes_the_model(fields)
    notes: list[str] = []
    layers = fields.integer("num_hidden_layers", high=MAX_LAYERS)
    vocab, hidden = fields.integer("vocab_size"), fields.integer("hidden_size")
    heads, kv_heads, head_dim = _heads(fields, family, hidden, notes)
    rope, context, rope_notes = read_rope(fields, head_dim, fields.integer("max_position_embeddings"), rope_divisors)
    windows, window_notes = effective_windows(fields, family, layers)
    qkv_bias, o_bias, mlp_bias = _biases(fields, family)
    ids = read_token_ids(fields, family, generation, vocab)
    config = ModelConfig(
        family=family.name,
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        rms_eps=_eps(fields, notes),
        max_position=context,
        rope=rope,
        windows=windows,
        tie_embeddings=fields.flag("tie_word_embeddings", False) if fields.has("tie_word_embeddings") else None,
        qkv_bias=qkv_bias,
        o_bias=o_bias,
        mlp_bias=mlp_bias,
        qk_norm=family.qk_norm,
        dtype=_dtype(fields, notes),
        eos_ids=ids.eos,
        bos_id=ids.bos,
        pad_id=ids.pad,
    )
    notes += rope_notes + window_notes + list(ids.notes) + unread_keys(fields) + unused_advice(generation or {})
    return replace(config, notes=tuple(notes))


def _heads(fields: Fields, family: Family, hidden: int, notes: list[str]) -> tuple[int, int, int]:
    """(query heads, KV heads, head dim)."""
    heads = fields.integer("num_attention_heads", high=1 << 16)
    kv_default = heads
    if "num_key_value_heads" not in fields.data and family.kv_heads is not None:
        kv_default = family.kv_heads
        notes.append(f"num_key_value_heads is absent: {kv_default}, the {family.name} default")
    kv_heads = fields.integer("num_key_value_heads", kv_default, high=1 << 16)
    if heads % kv_heads:
        fields.fail("num_key_value_heads", f"is {kv_heads}; it must divide num_attention_heads {heads}")
    # guard[head-dim-stated]: hidden / heads is a default, not the definition (transformers#38373)
    # mutant[head-dim-stated/formula]:
    #   - if fields.has("head_dim"):
    #   + if False:
    if fields.has("head_dim"):
        return heads, kv_heads, fields.integer("head_dim", high=1 << 16)
    if "head_dim" not in fields.data and family.head_dim is not None:
        notes.append(f"head_dim is absent: {family.head_dim}, the {family.name} default")
        return heads, kv_heads, family.head_dim
    if hidden % heads:
        fields.fail("head_dim", f"is absent, and hidden_size {hidden} is not a multiple of {heads} heads")
    return heads, kv_heads, hidden // heads


def _biases(fields: Fields, family: Family) -> tuple[bool, bool, bool]:
    """(q, k, v), o, (gate, up, down). A flag that the family does not read must not claim a bias."""
    for key, reads in (("attention_bias", family.reads_attention_bias), ("mlp_bias", family.reads_mlp_bias)):
        if not reads and fields.flag(key, False):
            fields.fail(key, f"is true, but {family.name} models have no such bias")
    # guard[bias-default]: qwen2 has q, k, v biases without a flag; dropping them gives plausible, worse text
    # mutant[bias-default/false]:
    #   - qkv = fields.flag("attention_bias", family.qkv_bias)
    #   + qkv = fields.flag("attention_bias", False)
    qkv = fields.flag("attention_bias", family.qkv_bias)
    return qkv, qkv and family.attention_bias_covers_o, fields.flag("mlp_bias", False)


def _eps(fields: Fields, notes: list[str]) -> float:
    if not fields.has("rms_norm_eps"):
        notes.append("rms_norm_eps is absent: 1e-06 is assumed")
    return fields.number("rms_norm_eps", 1e-6)


def _dtype(fields: Fields, notes: list[str]) -> str:
    """The dtype the checkpoint was made in. It is shown, and decides nothing: each tensor names its own."""
    new, old = fields.text("dtype"), fields.text("torch_dtype")
    if new is not None and old is not None and new != old:
        fields.fail("dtype", f"is {new[:40]!r}, but torch_dtype is {old[:40]!r}; keep one of them")
    if new is None and old is None:
        notes.append("dtype is absent: float32 is assumed")
    name = (new or old or "float32").removeprefix("torch.")
    if name not in DTYPES:
        fields.fail("dtype", f"is {name[:40]!r}; known are {', '.join(DTYPES)}")
    return name
