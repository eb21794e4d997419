"""Every tensor a family can have: own name, name in Hugging Face files, name in GGUF files, shape in letters.

H query heads x D head dim = HD, G KV heads x D = GD, K hidden, F intermediate, V vocabulary, D head dim.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from teachkv.config import ModelConfig


@dataclass(frozen=True, slots=True)
class Row:
    own: str  # field of LayerWeights or ModelWeights
    hf: str  # within "model.layers.{i}."
    gguf: str  # within "blk.{i}."
    shape: tuple[str, ...]


TOP = (
    Row("embed", "model.embed_tokens.weight", "token_embd.weight", ("V", "K")),
    Row("norm", "model.norm.weight", "output_norm.weight", ("K",)),
    Row("lm_head", "lm_head.weight", "output.weight", ("V", "K")),
)
PLAIN = (
    Row("input_norm", "input_layernorm.weight", "attn_norm.weight", ("K",)),
    Row("q", "self_attn.q_proj.weight", "attn_q.weight", ("HD", "K")),
    Row("k", "self_attn.k_proj.weight", "attn_k.weight", ("GD", "K")),
    Row("v", "self_attn.v_proj.weight", "attn_v.weight", ("GD", "K")),
    Row("o", "self_attn.o_proj.weight", "attn_output.weight", ("K", "HD")),
    Row("post_norm", "post_attention_layernorm.weight", "ffn_norm.weight", ("K",)),
    Row("gate", "mlp.gate_proj.weight", "ffn_gate.weight", ("F", "K")),
    Row("up", "mlp.up_proj.weight", "ffn_up.weight", ("F", "K")),
    Row("down", "mlp.down_proj.weight", "ffn_down.weight", ("K", "F")),
)
QKV_BIAS = (
    Row("q_bias", "self_attn.q_proj.bias", "attn_q.bias", ("HD",)),
    Row("k_bias", "self_attn.k_proj.bias", "attn_k.bias", ("GD",)),
    Row("v_bias", "self_attn.v_proj.bias", "attn_v.bias", ("GD",)),
)
O_BIAS = (Row("o_bias", "self_attn.o_proj.bias", "attn_output.bias", ("K",)),)
MLP_BIAS = (
    Row("gate_bias", "mlp.gate_proj.bias", "ffn_gate.bias", ("F",)),
    Row("up_bias", "mlp.up_proj.bias", "ffn_up.bias", ("F",)),
    Row("down_bias", "mlp.down_proj.bias", "ffn_down.bias", ("K",)),
)
QK_NORM = (
    Row("q_norm", "self_attn.q_norm.weight", "attn_q_norm.weight", ("D",)),
    Row("k_norm", "self_attn.k_norm.weight", "attn_k_norm.weight", ("D",)),
)

# What each family's layers hold with every flag of its config on.
FAMILY_ROWS: dict[str, tuple[Row, ...]] = {
    "llama": PLAIN + QKV_BIAS + O_BIAS + MLP_BIAS,
    "mistral": PLAIN,
    "qwen2": PLAIN + QKV_BIAS,
    "qwen3": PLAIN + QKV_BIAS + O_BIAS + QK_NORM,
}
ALL_ROWS = PLAIN + QKV_BIAS + O_BIAS + MLP_BIAS + QK_NORM


@dataclass(frozen=True, slots=True)
class Expected:
    """One tensor that the config calls for. `layer` is None for those outside the layers."""

    own: str
    layer: int | None
    name: str
    shape: tuple[int, ...]


def expected(config: ModelConfig, style: str) -> Iterator[Expected]:
    """Every tensor of the model, the head included, in the order of use; `style` is "hf" or "gguf"."""
    sizes = _sizes(config)
    embed, norm, head = TOP
    yield _at(embed, None, style, sizes)
    rows = _rows(config)
    for layer in range(config.num_layers):
        for row in rows:
            yield _at(row, layer, style, sizes)
    yield _at(norm, None, style, sizes)
    yield _at(head, None, style, sizes)


def contradicted(name: str, config: ModelConfig, style: str) -> str | None:
    """Why a tensor outside `expected` cannot be passed over: it belongs to a layer, and the config denies it."""
    prefix = "model.layers." if style == "hf" else "blk."
    if not name.startswith(prefix):
        return None
    number, _, rest = name[len(prefix) :].partition(".")
    if rest not in {getattr(row, style) for row in ALL_ROWS} or not number.isdecimal() or len(number) > 9:
        return None
    if int(number) >= config.num_layers:
        return f"the config has {config.num_layers} layers"
    return f"the config ({config.family}) says that there is none"


def _rows(config: ModelConfig) -> tuple[Row, ...]:
    absent: tuple[Row, ...] = ()
    flags = (
        (config.qkv_bias, QKV_BIAS),
        (config.o_bias, O_BIAS),
        (config.mlp_bias, MLP_BIAS),
        (config.qk_norm, QK_NORM),
    )
    for present, rows in flags:
        absent += () if present else rows
    return tuple(row for row in FAMILY_ROWS[config.family] if row not in absent)


def _at(row: Row, layer: int | None, style: str, sizes: dict[str, int]) -> Expected:
    name: str = getattr(row, style)
    if layer is not None:
        name = f"model.layers.{layer}.{name}" if style == "hf" else f"blk.{layer}.{name}"
    return Expected(row.own, layer, name, tuple(sizes[letter] for letter in row.shape))


def _sizes(config: ModelConfig) -> dict[str, int]:
    return {
        "V": config.vocab_size,
        "K": config.hidden_size,
        "F": config.intermediate_size,
        "D": config.head_dim,
        "HD": config.num_heads * config.head_dim,
        "GD": config.num_kv_heads * config.head_dim,
    }
