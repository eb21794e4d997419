"""Keys of a config.json beside the model's own: bystanders, and those that must not be passed over."""

from collections.abc import Mapping
from typing import Any

from teachkv.config.reading import Fields, printable

# Read by other engines, without influence on the forward pass here.
HARMLESS = frozenset(
    {
        "_attn_implementation",
        "_name_or_path",
        "attention_dropout",
        "auto_map",
        "chunk_size_feed_forward",
        "finetuning_task",
        "id2label",
        "initializer_range",
        "is_decoder",
        "is_llama_config",
        "label2id",
        "max_length",
        "name_or_path",
        "output_attentions",
        "output_hidden_states",
        "pretraining_tp",
        "problem_type",
        "return_dict",
        "torchscript",
        "transformers.js_config",
        "transformers_version",
        "use_bfloat16",
        "use_cache",
        "unsloth_fixed",
        "unsloth_version",
    }
)
# Keys of related architectures that change the forward pass: (key, value under which they change nothing).
MUST_BE_NEUTRAL: tuple[tuple[str, Any], ...] = (
    ("quantization_config", None),
    ("rope_interleaved", False),
    ("use_mrope", False),
    ("attn_logit_softcapping", None),
    ("final_logit_softcapping", None),
    ("logit_scale", 1),
    ("logits_scaling", 1),
    ("attention_multiplier", None),
    ("embedding_multiplier", 1),
    ("residual_multiplier", 1),
    ("query_pre_attn_scalar", None),
    ("num_experts", 0),
    ("num_local_experts", 0),
    ("is_encoder_decoder", False),
    ("add_cross_attention", False),
)


# What of a generation_config.json would change the draws.
DRAWING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens", "max_length", "min_length")


def refuse_what_changes_the_model(fields: Fields) -> None:
    """Raises ConfigError for a setting whose effect is not implemented here."""
    activation = fields.text("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        fields.fail("hidden_act", f"is {str(activation)[:40]!r}; only silu is known")
    for key, neutral in MUST_BE_NEUTRAL:
        value = fields.raw(key)
        # guard[neutral-keys]: such a model would load and answer a little wrong
        # mutant[neutral-keys/removed]:
        #   - if value is not None and value != neutral:
        #   + if False:
        if value is not None and value != neutral:
            fields.fail(key, f"is {printable(str(value), 40)}; models that use it are not supported")


def unused_advice(generation: Mapping[str, Any]) -> list[str]:
    """A note on how generation_config.json would have tokens drawn: requests say that themselves."""
    drawing = {key: value for key, value in generation.items() if key in DRAWING and value is not None}
    shown = ", ".join(f"{key} {printable(str(value), 20)}" for key, value in drawing.items())
    return [f"generation_config.json suggests {shown}: not used, each request says how it draws"] if drawing else []


def unread_keys(fields: Fields) -> list[str]:
    """A note naming the keys that nothing has looked at, known bystanders left out."""
    left = [key for key in fields.unread() if key not in HARMLESS]
    shown = ", ".join(printable(key, 40) for key in left[:12]) + (
        f" and {len(left) - 12} more" if len(left) > 12 else ""
    )
    return [f"keys not read: {shown}"] if left else []
