"""Loaded models through the engine: a GGUF file answers as the same weights in a directory do, bit for bit."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from teachkv import LLM
from tests import gguf_toys
from tests.gguf_toys import QUANTISED, tiny_gguf
from tests.toys import FAMILIES, write_folder, write_tiny

PROMPT = [0, 42, 75, 2, 60, 61, 62, 5, 9, 33]


def logits(place: Path) -> Any:
    with LLM(str(place)) as llm:
        return llm.forward(PROMPT)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", QUANTISED)
@pytest.mark.case("ggml-org/llama.cpp#3364")
def test_gguf_logits_equal_those_of_a_directory(tmp_path: Path, family: str, dtype: str) -> None:
    changes = {"sliding_window": 4} if family == "mistral" else {}
    raw, config, tensors = tiny_gguf(family, dtype, num_hidden_layers=1, **changes)
    (tmp_path / "m.gguf").write_bytes(raw)
    write_folder(tmp_path / "hf", config, tensors)
    found = logits(tmp_path / "m.gguf")
    assert np.array_equal(found, logits(tmp_path / "hf"))
    assert found.std() > 0.1  # a model that says nothing would agree with anything


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.case("ggml-org/llama.cpp#3364")
def test_weights_packed_by_the_reference_quantiser_answer_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, dtype: str
) -> None:
    """It cannot pack Q4_K and Q6_K; those are packed by the tests' own packer alone."""

    def pack(dtype: str, values: Any, random: Any) -> tuple[bytes, Any]:
        kind = gguf.GGMLQuantizationType[dtype]
        raw = gguf.quants.quantize(values, kind)
        return raw.tobytes(), gguf.quants.dequantize(raw, kind)

    monkeypatch.setattr(gguf_toys, "pack", pack)
    changes = {"sliding_window": 4} if family == "mistral" else {}
    raw, config, tensors = gguf_toys.tiny_gguf(family, dtype, num_hidden_layers=1, **changes)
    (tmp_path / "m.gguf").write_bytes(raw)
    write_folder(tmp_path / "hf", config, tensors)
    found = logits(tmp_path / "m.gguf")
    assert np.array_equal(found, logits(tmp_path / "hf"))
    assert found.std() > 0.1


@pytest.mark.case("deepspeedai/DeepSpeed#8345")
def test_the_base_of_the_rope_counts_wherever_it_stands(tmp_path: Path) -> None:
    """v4, v5 and both spellings answer alike; another base, and no base at all, answer otherwise."""
    nested = {"rope_type": "default", "rope_theta": 5e5}
    spellings: dict[str, dict[str, Any]] = {
        "v4": {"rope_theta": 5e5},
        "v5": {"rope_theta": None, "rope_parameters": nested},
        "both": {"rope_theta": 5e5, "rope_parameters": nested},
        "other": {"rope_theta": 4e5},
        "none": {"rope_theta": None},
    }
    found = {name: logits(write_tiny(tmp_path / name, **changes)) for name, changes in spellings.items()}
    assert np.array_equal(found["v4"], found["v5"])
    assert np.array_equal(found["v4"], found["both"])
    assert not np.array_equal(found["v4"], found["other"])
    assert not np.array_equal(found["v4"], found["none"])


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
@pytest.mark.case("huggingface/safetensors#598")
def test_16_bit_directories_answer_as_their_float32_values_do(tmp_path: Path, dtype: str) -> None:
    from teachkv.checkpoint import load_model
    from tests.toys import tiny_config, tiny_tensors

    config = tiny_config("qwen3")
    write_folder(tmp_path / "narrow", config, tiny_tensors(config), dtype=dtype)
    narrow = load_model(tmp_path / "narrow").weights
    wide = {name: tensor.astype(np.float16).astype(np.float32) for name, tensor in tiny_tensors(config).items()}
    if dtype == "BF16":
        wide = {
            name: (tensor.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
            for name, tensor in tiny_tensors(config).items()
        }
    write_folder(tmp_path / "wide", config, wide)
    assert np.array_equal(narrow.embed, wide["model.embed_tokens.weight"])
    assert np.array_equal(logits(tmp_path / "narrow"), logits(tmp_path / "wide"))


def test_a_gguf_file_generates_text(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(tiny_gguf("llama", "Q8_0")[0])
    with LLM(str(tmp_path / "m.gguf")) as llm:
        (answer,) = llm.generate(["Hello there"])
    assert answer.outputs[0].token_ids
    assert answer.outputs[0].finish_reason in ("length", "stop")
