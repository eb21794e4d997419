"""Families, heads, biases, token ids, and the keys that must not be passed over."""

import json
from pathlib import Path
from typing import Any

import pytest

from teachkv.config import ModelConfig
from teachkv.errors import ConfigError
from tests.toys import FAMILIES, NULL, tiny_config


def read(family: str = "llama", **changes: Any) -> ModelConfig:
    return ModelConfig.from_dict(tiny_config(family, **changes))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_config_is_read_without_notes(family: str) -> None:
    config = read(family)
    assert (config.family, config.num_heads, config.num_kv_heads, config.head_dim) == (family, 4, 2, 8)
    assert (config.vocab_size, config.hidden_size, config.intermediate_size, config.num_layers) == (97, 32, 48, 2)
    assert (config.rms_eps, config.max_position, config.dtype) == (1e-6, 128, "float32")
    assert (config.qk_norm, config.mlp_bias, config.o_bias) == (family == "qwen3", False, False)
    assert config.notes == ()


@pytest.mark.kills("head-dim-stated/formula")
@pytest.mark.case("huggingface/transformers#38373")
def test_a_stated_head_dim_wins_and_null_means_the_formula() -> None:
    assert read(head_dim=12).head_dim == 12
    assert read(head_dim=12).rope.head_dim == 12
    assert read(head_dim=NULL).head_dim == 8
    assert read(head_dim=None).head_dim == 8
    assert read("qwen3", head_dim=NULL).head_dim == 8
    assert read("qwen3", head_dim=None).head_dim == 128
    assert "head_dim is absent: 128, the qwen3 default" in read("qwen3", head_dim=None).notes


@pytest.mark.kills("bias-default/false")
@pytest.mark.parametrize(
    ("family", "flag", "qkv", "o"),
    [
        ("llama", None, False, False),
        ("llama", True, True, True),
        ("llama", False, False, False),
        ("qwen2", None, True, False),
        ("qwen2", True, True, False),
        ("qwen2", False, False, False),
        ("qwen3", None, False, False),
        ("qwen3", True, True, True),
        ("mistral", None, False, False),
        ("mistral", False, False, False),
    ],
)
@pytest.mark.case("mlc-ai/mlc-llm#3494")
def test_attention_biases_follow_flag_and_family(family: str, flag: bool | None, qkv: bool, o: bool) -> None:
    config = read(family, attention_bias=flag)
    assert (config.qkv_bias, config.o_bias) == (qkv, o)


def test_a_bias_flag_that_the_family_does_not_have_must_be_false() -> None:
    assert read("llama", mlp_bias=True).mlp_bias
    with pytest.raises(ConfigError, match="attention_bias is true, but mistral"):
        read("mistral", attention_bias=True)
    with pytest.raises(ConfigError, match="mlp_bias is true, but qwen2"):
        read("qwen2", mlp_bias=True)


def test_kv_heads_absent_null_and_stated() -> None:
    assert read(num_key_value_heads=None).num_kv_heads == 4
    assert read("mistral", num_key_value_heads=NULL).num_kv_heads == 4
    config = read("mistral", num_key_value_heads=None, num_attention_heads=16)
    assert config.num_kv_heads == 8
    assert "num_key_value_heads is absent: 8, the mistral default" in config.notes


@pytest.mark.kills("eos-union/config-only", "eos-union/generation-only")
@pytest.mark.parametrize(
    ("config_ids", "generation_ids", "wanted"),
    [
        (2, [2, 7], (2, 7)),
        (2, 7, (2, 7)),
        ([2, 7], NULL, (2, 7)),
        ([2, 2], [7, 2], (2, 7)),
        (NULL, [7], (7,)),
        (NULL, NULL, ()),
        (-1, -1, ()),
    ],
)
@pytest.mark.case("vllm-project/vllm#4182")
def test_ends_are_the_union_of_both_files(config_ids: Any, generation_ids: Any, wanted: tuple[int, ...]) -> None:
    generation = {"eos_token_id": None if generation_ids is NULL else generation_ids}
    assert ModelConfig.from_dict(tiny_config(eos_token_id=config_ids), generation).eos_ids == wanted


def test_ends_that_fall_back_or_cannot_happen_are_told() -> None:
    assert "eos_token_id is absent: 2, the llama default" in read(eos_token_id=None).notes
    assert "no eos id" in read("qwen2", eos_token_id=None).notes[-1]
    assert "eos id 97 lies outside the vocabulary of 97 and can never be drawn" in read(eos_token_id=97).notes
    assert read(eos_token_id=96).notes == ()


@pytest.mark.case("NVIDIA-NeMo/Automodel#3704")
@pytest.mark.kills("pad-zero/falsy")
@pytest.mark.parametrize(("stated", "wanted"), [(0, 0), (1, 1), (96, 96), (NULL, None), (None, None), (-1, None)])
def test_token_zero_is_a_pad_id_like_any_other(stated: Any, wanted: int | None) -> None:
    assert read(pad_token_id=stated).pad_id == wanted


def test_bos_null_is_none_and_absent_is_the_family_default() -> None:
    assert read(bos_token_id=NULL).bos_id is None
    assert read(bos_token_id=None).bos_id == 1
    assert read(bos_token_id=None).notes == ("bos_token_id is absent: 1, the llama default",)
    assert read("qwen2", bos_token_id=None).bos_id is None
    assert read(bos_token_id=0).bos_id == 0


def test_dtype_and_torch_dtype() -> None:
    assert read(torch_dtype=None, dtype="bfloat16").dtype == "bfloat16"
    assert read(torch_dtype="torch.float16").dtype == "float16"
    assert read(torch_dtype=None).dtype == "float32"
    assert read(torch_dtype=None).notes == ("dtype is absent: float32 is assumed",)
    with pytest.raises(ConfigError, match="dtype is 'bfloat16', but torch_dtype is 'float32'"):
        read(dtype="bfloat16")
    with pytest.raises(ConfigError, match="dtype is 'int4'"):
        read(torch_dtype="int4")


@pytest.mark.kills("family-agrees/removed")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "names 'GPT2LMHeadModel'; known are LlamaForCausalLM, Mistral"),
        ({"architectures": ["Qwen2ForSequenceClassification"]}, "known are"),
        ({"architectures": [], "model_type": None}, "architectures names '\\(none given\\)'"),
        ({"architectures": None, "model_type": None}, "none given"),
        ({"architectures": "LlamaForCausalLM"}, "must be a list"),
        ({"architectures": [7]}, "must be a list"),
        ({"model_type": "gemma2"}, "model_type is 'gemma2'; known are llama, mistral, qwen2, qwen3"),
        ({"model_type": "qwen2"}, "contradicts architectures"),
        ({"architectures": ["LlamaForCausalLM", "Qwen2ForCausalLM"]}, "contradicts"),
        ({"model_type": 3}, "model_type must be a string"),
    ],
)
def test_unknown_and_contradictory_families_are_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**changes)


def test_either_name_alone_is_enough() -> None:
    assert read("qwen3", architectures=None).family == "qwen3"
    assert read("qwen3", model_type=None).family == "qwen3"


@pytest.mark.kills("neutral-keys/removed")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quantization_config", {"quant_method": "gptq"}),
        ("final_logit_softcapping", 30.0),
        ("num_local_experts", 8),
        ("logit_scale", 0.0625),
        ("rope_interleaved", True),
    ],
)
def test_keys_that_change_the_forward_pass_are_errors(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{key} is .*not supported"):
        read(**{key: value})


def test_neutral_values_of_such_keys_pass_and_unknown_keys_are_told() -> None:
    config = read(quantization_config=NULL, logit_scale=1.0, pretraining_tp=1, use_cache=True, my_own_key=3, other=4)
    assert config.notes == ("keys not read: my_own_key, other",)


def test_foreign_text_cannot_break_a_message_into_lines() -> None:
    assert read(**{"a\nb": 1}).notes == (r"keys not read: 'a\nb'",)
    scaling = {"rope_type": "linear", "factor": 2.0, "x\ry": 1}
    assert read(rope_scaling=scaling).notes == (r"rope settings not used: 'x\ry'",)
    for changes in ({"model_type": "a\nb"}, {"quantization_config": "a\nb"}, {"torch_dtype": "a\nb"}):
        with pytest.raises(ConfigError) as told:
            read(**changes)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "32", True, [32], 10**12, 10**500])
def test_sizes_must_be_whole_numbers_in_range(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^config.json: {key} (is|must be)") as told:
        read(**{key: value})
    assert len(str(told.value)) < 200


@pytest.mark.parametrize(
    "key",
    [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
    ],
)
def test_a_missing_size_is_an_error(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is missing"):
        read(**{key: None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_key_value_heads": 3}, "it must divide num_attention_heads 4"),
        ({"head_dim": None, "hidden_size": 34}, "hidden_size 34 is not a multiple of 4 heads"),
        ({"hidden_act": "gelu"}, "only silu is known"),
        ({"rms_norm_eps": 0}, "rms_norm_eps is 0"),
        ({"rms_norm_eps": "1e-6"}, "rms_norm_eps must be a number"),
        ({"tie_word_embeddings": "yes"}, "must be true or false"),
        ({"use_sliding_window": 1}, "must be true or false"),
        ({"sliding_window": -2}, "sliding_window is -2"),
        ({"eos_token_id": "</s>"}, "eos_token_id must be a token id"),
        ({"eos_token_id": [1, True]}, "eos_token_id must be a token id"),
        ({"eos_token_id": list(range(2000))}, "lists 2000 ids"),
    ],
)
def test_other_wrong_values(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**changes)


def test_tying_is_true_false_or_for_the_file_to_say() -> None:
    assert [read(tie_word_embeddings=flag).tie_embeddings for flag in (True, False, None)] == [True, False, None]


def test_from_dir_reads_both_files_and_names_them_in_errors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(tiny_config()))
    assert ModelConfig.from_dir(tmp_path).eos_ids == (1,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 6]}')
    assert ModelConfig.from_dir(tmp_path).eos_ids == (1, 5, 6)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": "x"}')
    with pytest.raises(ConfigError, match=r"^generation_config.json: eos_token_id"):
        ModelConfig.from_dir(tmp_path)
    (tmp_path / "generation_config.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"generation_config\.json: must hold a JSON object"):
        ModelConfig.from_dir(tmp_path)
