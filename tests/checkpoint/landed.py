"""What a loaded model holds, beside what its files held."""

from pathlib import Path
from typing import Any

import numpy as np

from teachkv.checkpoint import load_model

OWN_NAMES = {
    "input_norm": "input_layernorm.weight",
    "post_norm": "post_attention_layernorm.weight",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
} | {
    f"{own}{suffix}": f"{place}.{own}_proj.{kind}"
    for place, names in (("self_attn", "qkvo"), ("mlp", ("gate", "up", "down")))
    for own in names
    for suffix, kind in (("", "weight"), ("_bias", "bias"))
}


def assert_same(folder: Path, tensors: dict[str, Any]) -> None:
    """Every tensor of the file is at its place in the model, bit for bit, and nothing else is."""
    weights = load_model(folder).weights
    found = {"model.embed_tokens.weight": weights.embed, "model.norm.weight": weights.norm}
    if not weights.tied:
        found["lm_head.weight"] = weights.lm_head
    for index, layer in enumerate(weights.layers):
        for own, name in OWN_NAMES.items():
            array = getattr(layer, own)
            if array is not None:
                found[f"model.layers.{index}.{name}"] = array
    assert set(found) == set(tensors)
    for name, array in found.items():
        assert array.dtype == np.float32
        assert array.flags.c_contiguous
        assert np.array_equal(array, tensors[name]), name
