"""Random tiny models of all families against transformers, within 1e-4: rope types, windows, heads, biases, tying."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hf import Peer

from tests.model.packed import ints, load, whole
from tests.toys import FAMILIES, NULL, write_tiny

pytestmark = pytest.mark.peers

ROPES: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 3.0}},
    "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "max_position_embeddings": 16},
    "llama3": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 32,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        }
    },
    "yarn": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        "max_position_embeddings": 64,
    },
}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "head_dim 12": {"head_dim": 12},
    "no groups": {"num_key_value_heads": 4},
    "one KV head": {"num_key_value_heads": 1},
    "tied": {"tie_word_embeddings": True},
}
S, F = "sliding_attention", "full_attention"


def compare(folder: Path, length: int = 29) -> None:
    ids = np.random.default_rng(4).integers(0, 97, length).tolist()
    want = Peer(folder, "eager").logits(ids)
    got = whole(load(folder), ids, prompt_lens=ints([length]))
    assert np.abs(got - want).max() <= 1e-4
    assert np.abs(want).max() > 0.1


@pytest.mark.parametrize("rope", ROPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_rope_type(family: str, rope: str, tmp_path: Path) -> None:
    compare(write_tiny(tmp_path / "m", family, **ROPES[rope]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_shape(family: str, shape: str, tmp_path: Path) -> None:
    compare(write_tiny(tmp_path / "m", family, **SHAPES[shape]))


@pytest.mark.parametrize("biases", [{"attention_bias": True}, {"mlp_bias": True}])
def test_llama_with_biases(biases: dict[str, bool], tmp_path: Path) -> None:
    compare(write_tiny(tmp_path / "m", "llama", **biases))


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("threshold", [0, 1, 2, 3, 28])
@pytest.mark.parametrize("window", [5, NULL])
def test_qwen_windows_by_flag_and_threshold(
    family: str, flag: bool, threshold: int, window: Any, tmp_path: Path
) -> None:
    changes = {"use_sliding_window": flag, "max_window_layers": threshold, "sliding_window": window}
    compare(write_tiny(tmp_path / "m", family, num_hidden_layers=3, **changes))


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@pytest.mark.parametrize("types", [[S, F, F, S], [F, S, S, F], [F, F, F, F]])
@pytest.mark.parametrize("threshold", [0, 2])
def test_qwen_windows_by_layer_types(family: str, types: list[str], threshold: int, tmp_path: Path) -> None:
    changes = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": threshold, "layer_types": types}
    compare(write_tiny(tmp_path / "m", family, num_hidden_layers=4, **changes))


@pytest.mark.parametrize("window", [1, 2, 4, 28, 29, 100, NULL])
def test_mistral_windows(window: Any, tmp_path: Path) -> None:
    compare(write_tiny(tmp_path / "m", "mistral", sliding_window=window))
