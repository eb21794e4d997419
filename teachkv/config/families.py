"""What differs between the model families, as a table. All else the forward pass needs stands in config.json."""

from dataclasses import dataclass

from teachkv.config.reading import Fields


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture: its names, which flags its config has, and the value a missing flag stands for."""

    name: str
    architecture: str  # as listed under "architectures"
    has_window: bool  # reads sliding_window at all
    has_window_flag: bool  # ... but only where use_sliding_window is true
    qkv_bias: bool  # where attention_bias is absent
    attention_bias_covers_o: bool
    reads_attention_bias: bool
    reads_mlp_bias: bool
    qk_norm: bool
    head_dim: int | None  # where absent; None = hidden / heads
    kv_heads: int | None  # where absent; None = as many as query heads
    bos_id: int | None
    eos_id: int | None


FAMILIES: tuple[Family, ...] = (
    Family(
        name="llama",
        architecture="LlamaForCausalLM",
        has_window=False,
        has_window_flag=False,
        qkv_bias=False,
        attention_bias_covers_o=True,
        reads_attention_bias=True,
        reads_mlp_bias=True,
        qk_norm=False,
        head_dim=None,
        kv_heads=None,
        bos_id=1,
        eos_id=2,
    ),
    Family(
        name="mistral",
        architecture="MistralForCausalLM",
        has_window=True,
        has_window_flag=False,
        qkv_bias=False,
        attention_bias_covers_o=False,
        reads_attention_bias=False,
        reads_mlp_bias=False,
        qk_norm=False,
        head_dim=None,
        kv_heads=8,
        bos_id=1,
        eos_id=2,
    ),
    Family(
        name="qwen2",
        architecture="Qwen2ForCausalLM",
        has_window=True,
        has_window_flag=True,
        qkv_bias=True,
        attention_bias_covers_o=False,
        reads_attention_bias=True,
        reads_mlp_bias=False,
        qk_norm=False,
        head_dim=None,
        kv_heads=32,
        bos_id=None,
        eos_id=None,
    ),
    Family(
        name="qwen3",
        architecture="Qwen3ForCausalLM",
        has_window=True,
        has_window_flag=True,
        qkv_bias=False,
        attention_bias_covers_o=True,
        reads_attention_bias=True,
        reads_mlp_bias=False,
        qk_norm=True,
        head_dim=128,
        kv_heads=32,
        bos_id=None,
        eos_id=None,
    ),
)

BY_NAME = {family.name: family for family in FAMILIES}
BY_ARCHITECTURE = {family.architecture: family for family in FAMILIES}


def family_of(fields: Fields) -> Family:
    """The family that `architectures` and `model_type` agree on. Raises ConfigError if unknown or contradictory."""
    listed = fields.raw("architectures", [])
    model_type = fields.text("model_type")
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        fields.fail("architectures", "must be a list of names")
    for name in listed or ([] if model_type else ["(none given)"]):
        if name not in BY_ARCHITECTURE:
            fields.fail("architectures", f"names {name[:60]!r}; known are {', '.join(BY_ARCHITECTURE)}")
    if model_type is not None and model_type not in BY_NAME:
        fields.fail("model_type", f"is {model_type[:60]!r}; known are {', '.join(BY_NAME)}")
    found = {BY_ARCHITECTURE[name].name for name in listed} | ({model_type} if model_type else set())
    # guard[family-agrees]: the weights of one family load into another without a wrong shape, and answer nonsense
    # mutant[family-agrees/removed]:
    #   - if len(found) != 1:
    #   + if False:
    if len(found) != 1:
        fields.fail("model_type", f"{model_type!r} contradicts architectures {listed}")
    return BY_NAME[found.pop()]
