"""What `inspect` prints: every silent fall-back must be visible (minefield#107)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from teachkv.checkpoint import load_model
from teachkv.checkpoint.builtin import glass, tiny
from teachkv.checkpoint.inspect import describe
from tests.toys import tiny_config, tiny_tensors, write_folder, write_tiny


def lines(text: str, label: str) -> list[str]:
    return [line[12:] for line in text.splitlines() if line.startswith(f"{label} ")]


def test_the_whole_text_of_a_small_model(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "use_sliding_window": True,
        "sliding_window": 4,
        "max_window_layers": 1,
        "num_hidden_layers": 3,
    }
    folder = write_tiny(tmp_path / "toy", "qwen2", **changes, generation={"eos_token_id": [1, 7]})
    expected = f"""\
model       toy (safetensors, {folder})
family      qwen2
sizes       vocabulary 97, hidden 32, intermediate 48, 3 layers
heads       4 query, 2 KV, head_dim 8
context     128 tokens
rope        default, theta 10000
norm eps    1e-06
biases      q k v
embeddings  not tied
dtype       float32 in use; stored: 39 tensors F32; config says float32
eos ids     1, 7
bos, pad    0, none
layers      0: full attention
layers      1-2: sliding window of 4
file        model.safetensors, {(folder / "model.safetensors").stat().st_size / 1024:.1f} KiB
weights     115.9 KiB: 115.9 KiB mapped, 0.0 KiB copied
unused      none
missing     none"""
    assert describe(load_model(folder)) == expected


@pytest.mark.case("Blackwellboy/model-serving-minefield#107")
@pytest.mark.parametrize(
    ("changes", "layers", "note"),
    [
        ({}, ["0-4: full attention"], None),
        ({"sliding_window": 4}, ["0-4: full attention"], "use_sliding_window is absent, which means false"),
        (
            {"sliding_window": 4, "use_sliding_window": True},
            ["0-4: full attention"],
            "window 4 is gated off: max_window_layers is 28 by default and there are 5 layers",
        ),
        (
            {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 3},
            ["0-2: full attention", "3-4: sliding window of 4"],
            None,
        ),
    ],
)
def test_the_four_combinations_of_the_window_gates(
    tmp_path: Path, changes: dict[str, Any], layers: list[str], note: str | None
) -> None:
    text = describe(load_model(write_tiny(tmp_path, "qwen2", num_hidden_layers=5, **changes)))
    assert lines(text, "layers") == layers
    found = lines(text, "note")
    assert found == [] if note is None else any(note in line for line in found)


def test_unused_tensors_defaults_and_tying_are_printed(tmp_path: Path) -> None:
    config = tiny_config(tie_word_embeddings=None, rope_theta=None)
    extra: dict[str, Any] = {f"extra.{number:02d}": np.ones(1, np.float32) for number in range(14)}
    write_folder(tmp_path, config, tiny_tensors(config, head=False) | extra)
    text = describe(load_model(tmp_path))
    assert lines(text, "unused")[0].startswith("extra.00, extra.01")
    assert lines(text, "unused")[0].endswith("extra.11 and 2 more")
    assert lines(text, "embeddings") == ["tied to the head"]
    assert "rope_theta is absent: 10000 is assumed" in lines(text, "note")
    assert any("tie_word_embeddings is absent" in note for note in lines(text, "note"))


def test_a_tensor_name_cannot_break_the_text_into_lines(tmp_path: Path) -> None:
    config = tiny_config()
    write_folder(tmp_path, config, tiny_tensors(config) | {"a\nnote  all is well": np.ones(1, np.float32)})
    assert lines(describe(load_model(tmp_path)), "unused") == [r"'a\nnote  all is well'"]


def test_built_in_models_describe_themselves() -> None:
    assert "random weights, seed 3" in describe(tiny(seed=3))
    text = describe(glass(layers=4, windows=[3, None, None, 2]))
    assert lines(text, "layers") == ["0: sliding window of 3", "1-2: full attention", "3: sliding window of 2"]
    assert lines(text, "eos ids") == ["none"]
