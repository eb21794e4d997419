"""A GGUF file's settings as a config.json object, so that one reader (teachkv/config) judges both.

llama.cpp stores mistral models under the architecture "llama"; one with a window is read as mistral here.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from teachkv.checkpoint.gguf_header import GGUFHeader
from teachkv.config import ModelConfig
from teachkv.config.reading import printable
from teachkv.errors import ConfigError

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
# Keys (within the architecture) that change the forward pass, and the value under which they change nothing.
NEUTRAL: dict[str, Any] = {
    "attention.causal": True,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attention.scale": None,
    "expert_count": 0,
    "logit_scale": 1.0,
    "rope.scaling.attn_factor": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_ext_factor": 1.0,
    "rope.dimension_sections": None,
    "attention.sliding_window_pattern": None,
}
HARMLESS = ("vocab_size", "rope.scaling.finetuned")
TEMPLATE = "tokenizer.chat_template"  # and TEMPLATE.NAME, one key per further template
ROPE_FACTORS = "rope_freqs.weight"


def gguf_config(header: GGUFHeader, rope_divisors: tuple[float, ...] | None) -> ModelConfig:
    """The file's config. Raises ConfigError for an unknown architecture, a missing key or one of the wrong type."""
    return ModelConfig.from_dict(config_object(header), source=str(header.path), rope_divisors=rope_divisors)


def config_object(header: GGUFHeader) -> dict[str, Any]:
    """The settings under the names of a v4 config.json."""
    return read_settings(header)[0]


def read_settings(header: GGUFHeader) -> tuple[dict[str, Any], list[str]]:
    """(config.json object, notes on what of the file has no part in it)."""
    keys = Keys(header)
    config = _settings(keys, header)
    left = [key for key in keys.unread() if key not in HARMLESS]
    shown = ", ".join(printable(key, 60) for key in left[:12])
    notes = [f"keys not read: {shown}"] if left else []
    lost = [printable(name, 40) for name in _listed_templates(header) if f"{TEMPLATE}.{name}" not in header.metadata]
    if lost:
        notes.append(f"chat templates listed but not in the file: {', '.join(lost[:12])}")
    return config, notes


def _listed_templates(header: GGUFHeader) -> list[str]:
    names = header.metadata.get(f"{TEMPLATE}s")
    return list(names) if isinstance(names, list) else []


def _settings(keys: "Keys", header: GGUFHeader) -> dict[str, Any]:
    tensors = {tensor.name: tensor for tensor in header.tensors}
    window = keys.whole("attention.sliding_window", 0)
    config: dict[str, Any] = {
        "num_hidden_layers": keys.whole("block_count"),
        "hidden_size": keys.whole("embedding_length"),
        "intermediate_size": keys.whole("feed_forward_length"),
        "num_attention_heads": keys.whole("attention.head_count"),
        "max_position_embeddings": keys.whole("context_length"),
        "rms_norm_eps": keys.real("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in tensors,
        "torch_dtype": "float32",
        "hidden_act": "silu",
    }
    config["num_key_value_heads"] = keys.whole("attention.head_count_kv", config["num_attention_heads"])
    config |= _architecture(keys, window) | _head_dim(keys, config) | _rope(keys) | _ids(keys)
    if keys.arch == "llama":
        config["mlp_bias"] = "blk.0.ffn_up.bias" in tensors
    if keys.arch != "qwen2":
        config["attention_bias"] = "blk.0.attn_q.bias" in tensors
    if config["model_type"] == "mistral" and (config.pop("attention_bias") | config.pop("mlp_bias")):
        keys.fail("attention.sliding_window", "stands beside biases, which mistral models do not have")
    if "token_embd.weight" not in tensors:
        raise ConfigError(f"{header.path}: tensor 'token_embd.weight' is missing; fetch the file again")
    config["vocab_size"] = tensors["token_embd.weight"].shape[0]
    keys.refuse_what_changes_the_model()
    return config


class Keys:
    """Typed access to the metadata; short names lie within the file's architecture."""

    def __init__(self, header: GGUFHeader) -> None:
        self.path, self.metadata = header.path, header.metadata
        self.seen: set[str] = set()
        self.arch = str(self.metadata.get("general.architecture"))
        if self.arch not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise ConfigError(f"{self.path}: general.architecture is {self.arch[:40]!r}; known are {known}")
        if self.metadata.get("split.count", 1) not in (0, 1):
            raise ConfigError(f"{self.path}: is one part of a split file; join the parts first")

    def fail(self, key: str, message: str) -> NoReturn:
        raise ConfigError(f"{self.path}: {self.arch}.{key} {message}")

    def unread(self) -> list[str]:
        """Keys within the architecture that nothing has asked for."""
        prefix = f"{self.arch}."
        return sorted(
            key.removeprefix(prefix)
            for key in self.metadata
            if key.startswith(prefix) and key.removeprefix(prefix) not in self.seen
        )

    def get(self, key: str) -> Any:
        self.seen.add(key)
        return self.metadata.get(f"{self.arch}.{key}")

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(key, "is missing" if value is None else "must be a whole number")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A float32 as the shortest decimal that stands for it: 9.99999974e-06 was 1e-05 before it was stored."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, float):
            self.fail(key, "is missing" if value is None else "must be a float")
        return float(str(np.float32(value)))

    def refuse_what_changes_the_model(self) -> None:
        for key, neutral in NEUTRAL.items():
            value = self.get(key)
            # guard[gguf-neutral-keys]: such a model would load and answer a little wrong
            # mutant[gguf-neutral-keys/removed]:
            #   - if value is not None and (isinstance(value, np.ndarray | list) or value != neutral):
            #   + if False:
            if value is not None and (isinstance(value, np.ndarray | list) or value != neutral):
                self.fail(key, f"is {printable(str(value), 40)}; models that use it are not supported")


def _architecture(keys: Keys, window: int) -> dict[str, Any]:
    if keys.arch == "llama" and window > 0:
        return {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": window}
    if window > 0:
        keys.fail("attention.sliding_window", f"is {window}, but which layers slide does not stand in the file")
    return {"architectures": [ARCHITECTURES[keys.arch]], "model_type": keys.arch}


def _head_dim(keys: Keys, config: Mapping[str, Any]) -> dict[str, Any]:
    heads = config["num_attention_heads"]
    formula = config["hidden_size"] // heads if heads > 0 else 0
    dim = keys.whole("attention.key_length", formula)
    for other in ("attention.value_length", "rope.dimension_count"):
        if keys.whole(other, dim) != dim:
            keys.fail(other, f"is {keys.whole(other)}; heads of {dim} channels, rotated whole, are supported")
    return {"head_dim": dim}


def _rope(keys: Keys) -> dict[str, Any]:
    kind = keys.get("rope.scaling.type")
    found: dict[str, Any] = {"rope_theta": keys.real("rope.freq_base", 10000.0)}
    if kind in (None, "none"):
        return found
    scaling: dict[str, Any] = {"rope_type": kind, "factor": keys.real("rope.scaling.factor")}
    if keys.get("rope.scaling.original_context_length") is not None:
        scaling["original_max_position_embeddings"] = keys.whole("rope.scaling.original_context_length")
    for name in ("beta_fast", "beta_slow"):
        if keys.get(f"rope.scaling.yarn_{name}") is not None:
            scaling[name] = keys.real(f"rope.scaling.yarn_{name}")
    return found | {"rope_scaling": scaling}


def _ids(keys: Keys) -> dict[str, Any]:
    """Ends of text, of turn and of message all end a generation."""

    def token(name: str) -> int | None:
        value = keys.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ConfigError(f"{keys.path}: tokenizer.ggml.{name}_token_id must be a whole number")
        return value

    ends = [token(name) for name in ("eos", "eot", "eom")]
    return {
        "eos_token_id": list(dict.fromkeys(end for end in ends if end is not None)),
        "bos_token_id": token("bos"),
        "pad_token_id": token("padding"),
    }
