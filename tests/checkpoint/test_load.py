"""Loading whole directories: every tensor used or told, nothing half loaded, nothing copied that need not be."""

from pathlib import Path

import numpy as np
import pytest

from teachkv.checkpoint import load_model
from teachkv.checkpoint.mapping import narrow_bf16, widen_bf16
from teachkv.errors import CheckpointError
from tests.checkpoint.landed import assert_same
from tests.toys import FAMILIES, refuses, tiny_config, tiny_tensors, write_folder, write_tiny


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.case("huggingface/transformers#38373")
def test_every_tensor_of_every_family_lands_at_its_place(tmp_path: Path, family: str, shards: int, tied: bool) -> None:
    config = tiny_config(family, tie_word_embeddings=tied, head_dim=12)
    tensors = tiny_tensors(config)
    write_folder(tmp_path, config, tensors, shards=shards)
    assert_same(tmp_path, tensors)
    assert load_model(tmp_path).config.tie_embeddings is tied


@pytest.mark.parametrize("flags", [{"attention_bias": True}, {"mlp_bias": True}])
def test_biases_of_the_llama_family(tmp_path: Path, flags: dict[str, bool]) -> None:
    config = tiny_config("llama", **flags)
    tensors = tiny_tensors(config)
    assert any(name.endswith("bias") for name in tensors)
    write_folder(tmp_path, config, tensors)
    assert_same(tmp_path, tensors)


def test_float32_is_not_copied_and_cannot_be_written(tmp_path: Path) -> None:
    loaded = load_model(write_tiny(tmp_path))
    assert loaded.report.copied == 0
    assert loaded.report.mapped == loaded.weights.nbytes
    assert loaded.report.dtypes == {"F32": 21}
    with pytest.raises(ValueError, match="read-only"):
        loaded.weights.embed[0, 0] = 1.0


def test_float32_off_its_alignment_is_copied_so_that_it_multiplies_fast(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    raw = (tmp_path / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    (tmp_path / "model.safetensors").write_bytes(
        (length + 1).to_bytes(8, "little") + raw[8 : 8 + length] + b" " + raw[8 + length :]
    )
    loaded = load_model(tmp_path)
    assert loaded.report.mapped == 0
    assert loaded.report.copied == loaded.weights.nbytes
    assert all(array.flags.aligned for _, array in loaded.weights.named())
    assert np.array_equal(loaded.weights.embed, tiny_tensors(tiny_config())["model.embed_tokens.weight"])


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_16_bit_weights_are_widened_exactly(tmp_path: Path, dtype: str) -> None:
    config = tiny_config(tie_word_embeddings=True)
    tensors = {}
    for name, tensor in tiny_tensors(config).items():
        narrow = tensor.astype(np.float16) if dtype == "F16" else widen_bf16(narrow_bf16(tensor))
        tensors[name] = narrow.astype(np.float32)
    write_folder(tmp_path, config, tensors, dtype=dtype)
    assert_same(tmp_path, tensors)
    assert load_model(tmp_path).report.dtypes == {dtype: len(tensors)}


@pytest.mark.kills("bf16-widen/as-float16", "bf16-widen/as-integer")
@np.errstate(all="ignore")
@pytest.mark.case("huggingface/safetensors#598")
def test_all_65536_bfloat16_patterns_widen_exactly() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    wide = widen_bf16(bits)
    sign = np.where(bits >> 15, -1.0, 1.0)
    exponent, fraction = (bits >> 7) & 0xFF, (bits & 0x7F).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        normal = sign * (1 + fraction / 128) * 2.0 ** (exponent.astype(np.float64) - 127)
        wanted = np.where(exponent == 0, sign * fraction / 128 * 2.0**-126, normal)
    special = exponent == 255
    assert np.array_equal(wide[~special].astype(np.float64), wanted[~special])
    assert np.array_equal(np.isnan(wide), special & (fraction != 0))
    assert np.array_equal(np.isinf(wide), special & (fraction == 0))
    assert np.array_equal(narrow_bf16(wide)[~np.isnan(wide)], bits[~np.isnan(wide)])
    assert np.isnan(widen_bf16(narrow_bf16(wide)))[np.isnan(wide)].all()


@pytest.mark.case("huggingface/safetensors#598")
def test_narrowing_rounds_to_nearest_even() -> None:
    one = np.float32(1)
    ulp = np.float32(2.0**-7)
    values = np.array(
        [one + ulp / 2, one + 3 * ulp / 2, one + ulp / 2 + 2.0**-20, one + ulp / 4, 3e38, -2.5], np.float32
    )
    assert widen_bf16(narrow_bf16(values))[:4].tolist() == [1.0, 1 + 2 * 2.0**-7, 1 + 2.0**-7, 1.0]
    assert widen_bf16(narrow_bf16(np.array([3.4e38], np.float32)))[0] == np.inf
    noisy_nan = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(widen_bf16(narrow_bf16(noisy_nan))).all()


@pytest.mark.kills("all-present/removed")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.case("vllm-project/vllm-omni#5824")
def test_each_tensor_deleted_in_turn_is_named(tmp_path: Path, family: str, shards: int) -> None:
    config = tiny_config(family)
    tensors = tiny_tensors(config)
    for name in tensors:
        left = {key: value for key, value in tensors.items() if key != name}
        write_folder(tmp_path, config, left, shards=shards)
        with refuses(CheckpointError, f"tensor '{name}' is missing"):
            load_model(tmp_path)


def test_several_missing_tensors_are_counted(tmp_path: Path) -> None:
    config = tiny_config()
    tensors = {name: value for name, value in tiny_tensors(config).items() if "layers.1." not in name}
    write_folder(tmp_path, config, tensors)
    with pytest.raises(CheckpointError, match=r"layers\.1\.input_layernorm.weight' is missing and 8 more"):
        load_model(tmp_path)


@pytest.mark.kills("shape-fits/size-only")
@pytest.mark.parametrize("how", ["transposed", "one row less", "flat", "extra axis"])
@pytest.mark.case("vllm-project/vllm-omni#5824")
def test_a_wrong_shape_is_an_error_that_names_both(tmp_path: Path, how: str) -> None:
    config = tiny_config()
    tensors = tiny_tensors(config)
    name = "model.layers.1.mlp.up_proj.weight"
    change = {
        "transposed": lambda w: w.T,
        "one row less": lambda w: w[:-1],
        "flat": np.ravel,
        "extra axis": lambda w: w[None],
    }
    tensors[name] = np.ascontiguousarray(change[how](tensors[name]))
    write_folder(tmp_path, config, tensors)
    with pytest.raises(
        CheckpointError, match=r"model\.safetensors: tensor 'model.layers.1.mlp.up_proj.weight' has shape"
    ):
        load_model(tmp_path)


@pytest.mark.case("vllm-project/vllm-omni#5824")
def test_an_unknown_tensor_is_told_not_taken(tmp_path: Path) -> None:
    config = tiny_config()
    tensors = tiny_tensors(config)
    extra = {
        "model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32),
        "my.tensor": np.ones(3, np.float32),
    }
    write_folder(tmp_path, config, tensors | extra)
    assert load_model(tmp_path).report.unused == tuple(sorted(extra))
    assert_same(tmp_path, tensors)


@pytest.mark.kills("bias-not-dropped/removed")
@pytest.mark.parametrize(
    ("family", "name", "why"),
    [
        ("llama", "model.layers.0.self_attn.q_proj.bias", "there is none"),
        ("llama", "model.layers.1.mlp.up_proj.bias", "there is none"),
        ("qwen2", "model.layers.0.self_attn.o_proj.bias", "there is none"),
        ("mistral", "model.layers.0.self_attn.v_proj.bias", "there is none"),
        ("llama", "model.layers.0.self_attn.q_norm.weight", "there is none"),
        ("llama", "model.layers.2.self_attn.q_proj.weight", "the config has 2 layers"),
    ],
)
def test_a_tensor_that_the_config_denies_is_an_error(tmp_path: Path, family: str, name: str, why: str) -> None:
    config = tiny_config(family)
    write_folder(tmp_path, config, tiny_tensors(config) | {name: np.full(32, 3.0, np.float32)})
    with pytest.raises(CheckpointError, match=f"tensor '{name}' is there, but .*{why}"):
        load_model(tmp_path)


@pytest.mark.parametrize(("flag", "present"), [(None, False), (False, False), (True, True)])
@pytest.mark.case("mlc-ai/mlc-llm#3494")
def test_bias_flag_and_file_agree_or_fail(tmp_path: Path, flag: bool | None, present: bool) -> None:
    """mlc-llm#3494: the flag absent, true and false, over a file with and without biases of 3.0."""
    stated = tiny_config("llama", attention_bias=flag)
    for in_file in (True, False):
        tensors = tiny_tensors(tiny_config("llama", attention_bias=in_file))
        tensors = {
            name: np.full_like(value, 3.0) if name.endswith("bias") else value for name, value in tensors.items()
        }
        write_folder(tmp_path, stated, tensors)
        if in_file == present:
            assert_same(tmp_path, tensors)
        else:
            with pytest.raises(CheckpointError, match="missing" if present else "is there, but"):
                load_model(tmp_path)


TIED, UNTIED = True, False
TYING: list[tuple[bool | None, str, bool | str, str | None]] = [
    (True, "absent", TIED, None),
    (True, "equal", TIED, "lm_head.weight is in the file and equals the embeddings: not used"),
    (True, "different", "differs from the embeddings, but tie_word_embeddings is true", None),
    (False, "absent", "tensor 'lm_head.weight' is missing", None),
    (False, "equal", UNTIED, "equals the embeddings, though tie_word_embeddings is false"),
    (False, "different", UNTIED, None),
    (None, "absent", TIED, "absent and so is lm_head.weight: the head is tied"),
    (None, "equal", UNTIED, "absent and lm_head.weight is there: the head is not tied"),
    (None, "different", UNTIED, "absent and lm_head.weight is there: the head is not tied"),
]


@pytest.mark.kills("tie-contradiction/removed")
@pytest.mark.parametrize(("flag", "head", "outcome", "note"), TYING)
@pytest.mark.case("vllm-project/vllm#5621")
def test_the_nine_cases_of_tied_embeddings(
    tmp_path: Path, flag: bool | None, head: str, outcome: bool | str, note: str | None
) -> None:
    """vllm#5621: flag x head in the file. None of the contradictory cells is silent."""
    config = tiny_config(tie_word_embeddings=flag)
    tensors = tiny_tensors(config, head=False)
    if head != "absent":
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    if head == "different":
        tensors["lm_head.weight"][96, 31] += 1
    write_folder(tmp_path, config, tensors)
    if isinstance(outcome, str):
        with pytest.raises(CheckpointError, match=outcome):
            load_model(tmp_path)
        return
    loaded = load_model(tmp_path)
    assert loaded.config.tie_embeddings is outcome
    assert loaded.weights.tied is outcome
    assert np.array_equal(loaded.weights.lm_head, tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"]))
    assert loaded.report.unused == ()
    assert ("; ".join(loaded.report.notes) == "") if note is None else any(note in told for told in loaded.report.notes)
