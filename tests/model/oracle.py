"""REF: a float64 forward pass over one whole prompt. No cache, no batch, no code of the engine. Tests compare with it.

It reads a config.json dict and tensors under Hugging Face names, and follows the published modelling code in its own
words: windows as j > i - W, rotary pairs (i, i + D/2), query head h on KV head h // group.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def forward(config: dict[str, Any], tensors: dict[str, NDArray[Any]], ids: list[int]) -> F64:
    """Logits [T, V] of every position of the prompt `ids`."""
    t = {name: array.astype(np.float64) for name, array in tensors.items()}
    heads, kv_heads = config["num_attention_heads"], config.get("num_key_value_heads", config["num_attention_heads"])
    dim = config.get("head_dim") or config["hidden_size"] // heads
    eps = config["rms_norm_eps"]
    cos, sin = rotary(config, dim, len(ids))
    x = t["model.embed_tokens.weight"][ids]
    for layer, window in enumerate(windows(config)):
        at = f"model.layers.{layer}."
        h = norm(x, t[at + "input_layernorm.weight"], eps)
        q, k, v = (
            project(t, at + f"self_attn.{name}_proj", h).reshape(len(ids), count, dim)
            for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        if at + "self_attn.q_norm.weight" in t:
            q, k = norm(q, t[at + "self_attn.q_norm.weight"], eps), norm(k, t[at + "self_attn.k_norm.weight"], eps)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        mixed = np.stack(
            [attend(q[:, h], k[:, h * kv_heads // heads], v[:, h * kv_heads // heads], window) for h in range(heads)], 1
        )
        x = x + project(t, at + "self_attn.o_proj", mixed.reshape(len(ids), heads * dim))
        h = norm(x, t[at + "post_attention_layernorm.weight"], eps)
        gate, up = project(t, at + "mlp.gate_proj", h), project(t, at + "mlp.up_proj", h)
        x = x + project(t, at + "mlp.down_proj", gate / (1 + np.exp(-gate)) * up)
    x = norm(x, t["model.norm.weight"], eps)
    return x @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).T


def project(t: dict[str, F64], name: str, x: F64) -> F64:
    return x @ t[name + ".weight"].T + t.get(name + ".bias", 0.0)


def norm(x: F64, weight: F64, eps: float) -> F64:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def turn(x: F64, cos: F64, sin: F64) -> F64:
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:]) * (cos + 1j * sin)[:, None]
    return np.concatenate([z.real, z.imag], -1)


def attend(q: F64, k: F64, v: F64, window: int | None) -> F64:
    i, j = np.arange(len(q))[:, None], np.arange(len(k))[None, :]
    seen = (j <= i) & (True if window is None else j > i - window)
    s = np.where(seen, q @ k.T / math.sqrt(q.shape[1]), -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v


def windows(config: dict[str, Any]) -> list[int | None]:
    """The window of each layer, None = full."""
    count, size = config["num_hidden_layers"], config.get("sliding_window")
    family = config["model_type"]
    if family.startswith("qwen"):
        size = size if config.get("use_sliding_window") else None
        start = config.get("max_window_layers", 28)
    else:
        start = 0
        size = size if family == "mistral" else None
    types = config.get("layer_types") or ["full" if i < start else "sliding_attention" for i in range(count)]
    return [size if kind == "sliding_attention" and size else None for kind in types]


def rotary(config: dict[str, Any], dim: int, length: int) -> tuple[F64, F64]:
    """cos and sin [T, D/2], the attention factor multiplied in. A whole prompt: dynamic scaling sees its length."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = scaling.get("rope_theta", config.get("rope_theta", 10000.0))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    factor, most = scaling.get("factor", 1.0), config["max_position_embeddings"]
    scale = 1.0
    f = np.array([theta ** (-2 * i / dim) for i in range(dim // 2)])
    if kind == "linear":
        f = f / factor
    elif kind == "dynamic":
        n = max(length, most)
        f = np.array(
            [(theta * (factor * n / most - factor + 1) ** (dim / (dim - 2))) ** (-2 * i / dim) for i in range(dim // 2)]
        )
    elif kind == "llama3":
        f = np.array([llama3(x, scaling) for x in f])
    elif kind == "yarn":
        f, scale = yarn(f, scaling, theta, dim, most)
    angle = np.arange(length)[:, None] * f
    return np.cos(angle) * scale, np.sin(angle) * scale


def llama3(f: float, scaling: dict[str, Any]) -> float:
    original, low, high = (
        scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    wave = 2 * math.pi / f
    if wave < original / high:
        return f
    if wave > original / low:
        return f / scaling["factor"]
    smooth = (original / wave - low) / (high - low)
    return (1 - smooth) * f / scaling["factor"] + smooth * f


def yarn(f: F64, scaling: dict[str, Any], theta: float, dim: int, most: int) -> tuple[F64, float]:
    factor, original = scaling["factor"], scaling.get("original_max_position_embeddings", most)

    def pair(turns: float) -> float:
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(pair(scaling.get("beta_slow", 1))), dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / ((high - low) or 0.001), 0, 1)
    return f / factor * ramp + f * (1 - ramp), scaling.get("attention_factor") or 0.1 * math.log(factor) + 1
