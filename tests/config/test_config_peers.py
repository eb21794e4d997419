"""Rotary tables and window lists against transformers itself (extra `peers`)."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from teachkv.config import ModelConfig, Rope
from teachkv.config.rope import dynamic_frequencies, inverse_frequencies
from teachkv.errors import ConfigError
from tests.toys import NULL, tiny_config

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SCALED: list[dict[str, Any]] = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.25},
    {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.8},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False},
]


def rotary(config: dict[str, Any]) -> Any:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    return LlamaRotaryEmbedding(transformers.LlamaConfig(**config))


@pytest.mark.parametrize("scaling", SCALED, ids=lambda scaling: scaling["rope_type"])
@pytest.mark.parametrize("head_dim", [8, 64, 128])
@pytest.mark.parametrize(("theta", "original"), [(1e4, 16), (5e5, 8192)])
@pytest.mark.case("unslothai/unsloth#2405")
def test_frequencies_and_attention_factor(scaling: dict[str, Any], head_dim: int, theta: float, original: int) -> None:
    if scaling["rope_type"] in ("llama3", "yarn"):
        scaling = scaling | {"original_max_position_embeddings": original}
    config = tiny_config(
        head_dim=head_dim,
        max_position_embeddings=original * 4,
        rope_theta=None,
        rope_parameters=scaling | {"rope_theta": theta},
    )
    theirs, mine = rotary(config), ModelConfig.from_dict(config).rope
    assert inverse_frequencies(mine) == pytest.approx(theirs.inv_freq.numpy(), rel=1e-6)
    assert mine.attention_factor == pytest.approx(theirs.attention_scaling, rel=1e-12)


@pytest.mark.parametrize("length", [16, 17, 40, 100])
def test_dynamic_frequencies_at_each_length(length: int) -> None:
    config = tiny_config(rope_scaling={"rope_type": "dynamic", "factor": 4.0}, max_position_embeddings=16)
    mine = ModelConfig.from_dict(config).rope
    theirs, positions = rotary(config), torch.arange(length)[None]
    cos, sin = theirs(torch.zeros(1, length, 8), positions)
    assert dynamic_frequencies(mine, np.array([length]))[0] == pytest.approx(theirs.inv_freq.numpy(), rel=1e-6)
    found = Rope(mine).cos_sin(np.arange(length), np.full(length, length))
    for table, reference in zip(found, (cos, sin), strict=True):
        assert table == pytest.approx(reference[0, :, :4].numpy(), abs=2e-5)


S, F = "sliding_attention", "full_attention"


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_windows_of_every_combination(family: str) -> None:
    """flag x window x threshold x explicit list; a sliding list without a window is where this project refuses."""
    kind = {"qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config}[family]
    compared = 0
    for flag, window, threshold, listed in product(
        [None, False, True], [None, NULL, 3], [None, 0, 1, 2, 4, 5], [None, [S, F, F, S], [F, F, F, F], [S, S, S, S]]
    ):
        config = tiny_config(
            family,
            num_hidden_layers=4,
            use_sliding_window=flag,
            sliding_window=window,
            max_window_layers=threshold,
            layer_types=listed,
        )
        theirs = kind(**config)
        if window is None and flag:
            continue  # transformers assumes 4096; here an absent window is none
        wanted = tuple(theirs.sliding_window if kind == S else None for kind in theirs.layer_types)
        if theirs.sliding_window is None and S in theirs.layer_types:
            with pytest.raises(ConfigError, match="no window is in effect"):
                ModelConfig.from_dict(config)
            continue
        assert ModelConfig.from_dict(config).windows == wanted, config
        compared += 1
    assert compared > 90
