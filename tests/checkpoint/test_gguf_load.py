"""GGUF files against the same weights as safetensors: every type, every family, the row order of q and k."""

import dataclasses
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer

from teachkv.checkpoint import load_model
from teachkv.checkpoint.convert import convert
from teachkv.checkpoint.gguf_config import config_object, read_settings
from teachkv.checkpoint.gguf_header import read_gguf_header
from teachkv.errors import CheckpointError, ConfigError
from teachkv.weights import ModelWeights
from tests.gguf_toys import F32, QUANTISED, U32, gguf_bytes, tiny_gguf, tiny_keys, write_gguf
from tests.toys import FAMILIES, refuses, tiny_config, tiny_tensors, write_folder


def assert_equal(one: ModelWeights, other: ModelWeights) -> None:
    left, right = dict(one.named()), dict(other.named())
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype == np.float32
        assert np.array_equal(array, right[name]), name


def both(tmp_path: Path, family: str, dtype: str, **changes: Any) -> tuple[Any, Any]:
    """The same model loaded from a GGUF file and from a directory."""
    if family == "mistral":
        changes = {"sliding_window": 5} | changes  # else the file is one of llama
    raw, config, tensors = tiny_gguf(family, dtype, **changes)
    (tmp_path / "m.gguf").write_bytes(raw)
    write_folder(tmp_path / "hf", config, tensors)
    return load_model(tmp_path / "m.gguf"), load_model(tmp_path / "hf")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", QUANTISED)
@pytest.mark.case("ggml-org/llama.cpp#3364")
def test_every_type_and_family_equals_the_same_weights_as_safetensors(tmp_path: Path, family: str, dtype: str) -> None:
    loaded, wanted = both(tmp_path, family, dtype)
    assert_equal(loaded.weights, wanted.weights)
    same = dataclasses.replace(wanted.config, notes=loaded.config.notes)
    assert loaded.config == same
    assert loaded.report.dtypes[dtype] >= 15


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("biases", [{}, {"attention_bias": True}, {"mlp_bias": True}])
def test_tying_and_biases_of_the_llama_family_come_from_the_tensors(
    tmp_path: Path, tied: bool, biases: dict[str, bool]
) -> None:
    loaded, wanted = both(tmp_path, "llama", "Q8_0", tie_word_embeddings=tied, **biases)
    assert_equal(loaded.weights, wanted.weights)
    assert loaded.weights.tied is tied
    assert (loaded.config.qkv_bias, loaded.config.o_bias, loaded.config.mlp_bias) == (
        wanted.config.qkv_bias,
        wanted.config.o_bias,
        wanted.config.mlp_bias,
    )


@pytest.mark.kills("gguf-permuted/removed", "gguf-permuted/always", "gguf-kv-heads/query-count")
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("heads", [(4, 4), (4, 1), (6, 2)])
@pytest.mark.case("ggml-org/llama.cpp#3364")
def test_row_order_with_grouped_heads(tmp_path: Path, heads: tuple[int, int], family: str) -> None:
    loaded, wanted = both(tmp_path, family, "Q4_0", num_attention_heads=heads[0], num_key_value_heads=heads[1])
    assert_equal(loaded.weights, wanted.weights)


def test_float32_that_is_not_permuted_stays_mapped(tmp_path: Path) -> None:
    loaded = load_model(write_gguf(tmp_path / "m.gguf", "qwen2"))
    assert loaded.report.copied == 0
    assert loaded.report.mapped == loaded.weights.nbytes
    assert load_model(write_gguf(tmp_path / "l.gguf", "llama")).report.copied == 2 * 4 * 256 * (256 + 128)


def test_rope_divisors_of_llama_3_divide_the_frequencies(tmp_path: Path) -> None:
    from teachkv.config.rope import inverse_frequencies

    divisors = [1.0] * 16 + [8.0] * 16
    loaded = load_model(write_gguf(tmp_path / "m.gguf", rope_freqs=divisors))
    plain = load_model(write_gguf(tmp_path / "p.gguf"))
    ratio = inverse_frequencies(plain.config.rope) / inverse_frequencies(loaded.config.rope)
    assert np.array_equal(ratio, divisors)
    assert loaded.report.unused == ()
    assert "32 divisors of 1 to 8" in loaded.config.rope.describe()
    for wrong in ([1.0] * 31, [0.0] * 32, [float("nan")] * 32):
        with pytest.raises(ConfigError, match="rope_freqs must hold 32 positive divisors"):
            load_model(write_gguf(tmp_path / "w.gguf", rope_freqs=wrong))
    with pytest.raises(CheckpointError, match=r"no place in a config\.json"):
        convert(tmp_path / "m.gguf", tmp_path)


EMBEDDING = ("token_embd.weight", [32, 97], 0, bytes(4 * 32 * 97))


def with_keys(tmp_path: Path, *more: Any, without: tuple[str, ...] = (), family: str = "llama") -> Path:
    """A one-layer file whose keys are changed."""
    config = tiny_config(family, num_hidden_layers=1)
    keys = [key for key in tiny_keys(config) if key[0] not in without and key[0] not in {new[0] for new in more}]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes([*keys, *more], [EMBEDDING]))
    return path


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("general.architecture", 8, "gemma"), "general.architecture is 'gemma'; known are llama, qwen2, qwen3"),
        (("llama.block_count", 8, "2"), "block_count must be a whole number"),
        (("llama.block_count", F32, 2.0), "block_count must be a whole number"),
        (("llama.block_count", U32, 10**9), "num_hidden_layers is 1000000000"),
        (("llama.attention.head_count", U32, 0), "num_attention_heads is 0"),
        (("llama.attention.head_count_kv", 9, (U32, [2, 2])), "head_count_kv must be a whole number"),
        (("llama.attention.layer_norm_rms_epsilon", U32, 1), "must be a float"),
        (("llama.attention.value_length", U32, 16), "value_length is 16; heads of 8 channels"),
        (("llama.rope.dimension_count", U32, 4), "dimension_count is 4; heads of 8 channels, rotated whole"),
        (("llama.rope.scaling.type", 8, "longrope"), "rope.scaling.factor is missing"),
        (("tokenizer.ggml.eos_token_id", 8, "x"), "eos_token_id must be a whole number"),
        (("split.count", 2, 3), "one part of a split file"),
    ],
)
def test_settings_that_make_no_model_are_refused(tmp_path: Path, more: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as told:
        load_model(with_keys(tmp_path, more))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("key", ["block_count", "embedding_length", "context_length", "attention.head_count"])
def test_a_missing_setting_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=f"llama.{key} is missing"):
        load_model(with_keys(tmp_path, without=(f"llama.{key}",)))


@pytest.mark.kills("gguf-neutral-keys/removed")
@pytest.mark.parametrize(
    "more",
    [
        ("llama.attention.scale", F32, 0.5),
        ("llama.expert_count", U32, 8),
        ("llama.attention.causal", 7, False),
        ("llama.rope.dimension_sections", 9, (5, [1, 2])),
    ],
)
def test_settings_that_change_the_forward_pass_are_refused(tmp_path: Path, more: Any) -> None:
    with refuses(ConfigError, "models that use it are not supported"):
        load_model(with_keys(tmp_path, more))


def test_what_the_file_holds_beyond_the_model_is_told(tmp_path: Path) -> None:
    config = tiny_config(num_hidden_layers=1)
    more: list[Any] = [("llama.mystery", U32, 1), ("llama.vocab_size", U32, 97)]
    more += [("tokenizer.chat_templates", 9, (8, ["tool_use"])), ("general.name", 8, "x")]
    (tmp_path / "m.gguf").write_bytes(gguf_bytes([*tiny_keys(config), *more], [EMBEDDING]))
    assert read_settings(read_gguf_header(tmp_path / "m.gguf"))[1] == [
        "keys not read: mystery",
        "chat templates listed but not in the file: tool_use",
    ]
    assert load_model(write_gguf(tmp_path / "plain.gguf")).report.notes == ()


def test_a_window_makes_a_llama_file_mistral_and_is_refused_for_qwen(tmp_path: Path) -> None:
    assert load_model(write_gguf(tmp_path / "a.gguf", "mistral", sliding_window=5)).config.windows == (5, 5)
    with pytest.raises(ConfigError, match="which layers slide does not stand in the file"):
        load_model(write_gguf(tmp_path / "b.gguf", "qwen2", sliding_window=5))


def test_ends_of_text_turn_and_message_all_count(tmp_path: Path) -> None:
    raw, _, _ = tiny_gguf()
    (tmp_path / "m.gguf").write_bytes(raw)
    assert load_model(tmp_path / "m.gguf").config.eos_ids == (1,)
    path = with_keys(tmp_path, ("tokenizer.ggml.eot_token_id", U32, 5), ("tokenizer.ggml.eom_token_id", U32, 1))
    assert config_object(read_gguf_header(path))["eos_token_id"] == [1, 5]
    (tmp_path / "e.gguf").write_bytes(gguf_bytes(tiny_keys(tiny_config()), []))
    with pytest.raises(ConfigError, match=r"'token_embd\.weight' is missing"):
        load_model(tmp_path / "e.gguf")


def test_missing_and_misshapen_tensors_are_named_in_the_files_own_names(tmp_path: Path) -> None:
    config = tiny_config("llama", num_hidden_layers=1, tie_word_embeddings=True)
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(tiny_keys(config), [EMBEDDING]))
    with pytest.raises(CheckpointError, match=r"'blk\.0\.attn_norm\.weight' is missing and 9 more"):
        load_model(tmp_path / "m.gguf")


def test_a_type_that_is_not_read_is_named(tmp_path: Path) -> None:
    config = tiny_config("llama", num_hidden_layers=1, tie_word_embeddings=True)
    embedding = ("token_embd.weight", [32, 97], 6, bytes(22 * 97))
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(tiny_keys(config), [embedding]))
    with pytest.raises(CheckpointError, match="is Q5_0; weights must be F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q6_K"):
        load_model(tmp_path / "m.gguf")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_converted_file_loads_as_the_file_itself_without_copies(tmp_path: Path, family: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", family, "Q4_1", **({"sliding_window": 5} if family == "mistral" else {}))
    (tmp_path / "hf").mkdir()
    written: list[int] = []
    convert(path, tmp_path / "hf", written.append)
    loaded, wanted = load_model(tmp_path / "hf"), load_model(path)
    assert_equal(loaded.weights, wanted.weights)
    assert dataclasses.replace(loaded.config, notes=()) == dataclasses.replace(wanted.config, notes=())
    assert loaded.report.copied == 0
    assert sum(written) == loaded.report.mapped
    starts = [array.__array_interface__["data"][0] for _, array in loaded.weights.named()]
    assert starts[0] % 4096 == 0
    assert starts[:-2] == sorted(starts[:-2])  # in the order of use
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert loaded.tokenizer_source.read(name) == wanted.tokenizer_source.read(name)
    assert Tokenizer.from_file(str(tmp_path / "hf" / "tokenizer.json")).encode("Hi").ids == [42, 75]


def test_files_of_the_reference_writer_and_quantiser_are_read_alike(tmp_path: Path) -> None:
    """Header against the package's own reader; weights against its own dequantiser."""
    config = tiny_config("qwen2", hidden_size=64, intermediate_size=96, head_dim=16)
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_uint32("a", 7)
    writer.add_array("b", ["x", "yz", ""])
    writer.add_array("c", [1, 2, 3])
    writer.add_float32("d", 1e-5)
    writer.add_bool("e", True)
    types = [gguf.GGMLQuantizationType[name] for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")]
    for number, (name, tensor) in enumerate(tiny_tensors(config).items()):
        kind = types[number % len(types)] if tensor.ndim == 2 else types[0]
        writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header, reference = read_gguf_header(path), gguf.GGUFReader(path)
    for key, value in header.metadata.items():
        contents = reference.fields[key].contents()
        assert (list(value) if isinstance(value, list | np.ndarray) else value) == contents, key
    assert [tensor.name for tensor in header.tensors] == [tensor.name for tensor in reference.tensors]
    for mine, theirs in zip(header.tensors, reference.tensors, strict=True):
        assert mine.dtype == theirs.tensor_type.name
        assert mine.shape == tuple(int(extent) for extent in reversed(theirs.shape))
        assert (mine.begin, mine.end - mine.begin) == (theirs.data_offset, theirs.n_bytes)
