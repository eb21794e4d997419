"""Every family and setting against the float64 oracle, in every way to get the same logits."""

from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from packed import Bench, ints, load, whole

from tests.toys import tiny_config, tiny_tensors, write_folder

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "original_max_position_embeddings": 32,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
WINDOWED = {"use_sliding_window": True, "sliding_window": 5}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, all biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, head_dim 12": ("llama", {"head_dim": 12}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "llama, 7 heads on 1": ("llama", {"num_attention_heads": 7, "num_key_value_heads": 1}),
    "llama, no groups": ("llama", {"num_key_value_heads": 4}),
    "llama, linear": ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 3.0}}),
    "llama, llama3": ("llama", {"rope_scaling": LLAMA3}),
    "llama, yarn": ("llama", {"rope_scaling": YARN, "max_position_embeddings": 64}),
    "mistral": ("mistral", {}),
    "mistral, window": ("mistral", {"sliding_window": 4}),
    "qwen2": ("qwen2", {}),
    "qwen2, flag false": ("qwen2", {"sliding_window": 4, "use_sliding_window": False}),
    "qwen2, threshold 1": ("qwen2", WINDOWED | {"max_window_layers": 1}),
    "qwen2, threshold 0": ("qwen2", WINDOWED | {"max_window_layers": 0}),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3, layer types": (
        "qwen3",
        WINDOWED
        | {
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
        },
    ),
}


def tiny(folder: Path, name: str) -> tuple[Any, Any, Any]:
    family, changes = MODELS[name]
    config = tiny_config(family, **changes)
    tensors = tiny_tensors(config, seed=3)
    write_folder(folder / "m", config, tensors)
    return load(folder / "m"), config, tensors


@pytest.mark.case("ml-explore/mlx-lm#1699", "huggingface/transformers#38002", "EricLBuehler/mistral.rs#246")
@pytest.mark.kills("last-token/last-rows", "same-angle/queries-twice", "bottom-right/top-left")
@pytest.mark.parametrize("name", MODELS)
def test_prefill_chunks_and_decode_equal_the_oracle(name: str, tmp_path: Path) -> None:
    model, config, tensors = tiny(tmp_path, name)
    ids = np.random.default_rng(5).integers(0, 97, 23).tolist()
    want = oracle.forward(config, tensors, ids)
    scale = np.abs(want).max()
    prefill = whole(model, ids)
    chunked, decoded = Bench(model, 1, 40), Bench(model, 1, 40)
    chunks = np.concatenate([chunked.step({0: ids[a:b]}, "prefill")[0] for a, b in ((0, 7), (7, 8), (8, 19), (19, 23))])
    steps = np.concatenate([decoded.step({0: [token]})[0] for token in ids])
    for got in (prefill, chunks, steps):
        assert np.abs(got - want).max() <= 1e-5 * scale
    last = model.forward(ints(ids), [Bench(model, 1, 40).part({0: ids}, "prefill")], ints([4, 22]))
    assert np.array_equal(last, prefill[[4, 22]])


def test_the_oracle_tells_the_models_apart(tmp_path: Path) -> None:
    """Teeth: a setting that the engine ignored would show, because it moves the oracle by far more than the bound."""
    ids = np.random.default_rng(5).integers(0, 97, 23).tolist()
    for name in ("llama, linear", "llama, llama3", "llama, yarn", "mistral, window", "qwen2, threshold 1"):
        family, changes = MODELS[name]
        config = tiny_config(family, **changes)
        tensors = tiny_tensors(config, seed=3)
        plain = {k: v for k, v in config.items() if k not in ("rope_scaling", "sliding_window")}
        gap = np.abs(oracle.forward(config, tensors, ids) - oracle.forward(plain, tensors, ids)).max()
        assert gap > 1e-2, name


@pytest.mark.case("huggingface/transformers#22382")
@pytest.mark.parametrize("length", [9, 16, 17, 40])
def test_dynamic_rope_depends_on_the_prompt_length_not_on_chunks(length: int, tmp_path: Path) -> None:
    changes = {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "max_position_embeddings": 16}
    config = tiny_config("llama", **changes)
    tensors = tiny_tensors(config)
    write_folder(tmp_path / "m", config, tensors)
    model = load(tmp_path / "m")
    ids = np.random.default_rng(1).integers(0, 97, length).tolist()
    want = oracle.forward(config, tensors, ids)
    lens = {"prompt_lens": ints([length])}
    bench = Bench(model, 1, 64)
    split = np.concatenate([bench.step({0: ids[a : a + 6]}, "prefill", **lens)[0] for a in range(0, length, 6)])
    assert np.abs(split - want).max() <= 1e-5 * np.abs(want).max()
    assert np.array_equal(split, whole(model, ids, **lens))


def test_decode_and_prefill_parts_share_one_pass(tmp_path: Path) -> None:
    """Two decoders and two prompts in one forward, against each of them in passes of its own: bit for bit."""
    model, _, _ = tiny(tmp_path, "qwen2, threshold 1")
    random = np.random.default_rng(2)
    prompts = {row: random.integers(0, 97, n).tolist() for row, n in enumerate((5, 11, 9, 3))}
    together, apart = Bench(model, 4, 32), Bench(model, 4, 32)
    for bench in (together, apart):
        bench.step({row: prompts[row] for row in (0, 1)}, "prefill")
    decode = {0: [7], 1: [8]}
    prefill = {2: prompts[2], 3: prompts[3]}
    mixed = together.steps([(decode, "decode"), (prefill, "prefill")])
    alone = [apart.step(decode), apart.step(prefill)]
    for got, want in zip(mixed, alone, strict=True):
        for row in want:
            assert np.array_equal(got[row], want[row])


def test_no_logits_are_computed_where_none_are_asked(tmp_path: Path) -> None:
    """A chunk that is not the last asks for none, and gets an array of none."""
    model, _, _ = tiny(tmp_path, "llama")
    part = Bench(model, 1, 8).part({0: [1, 2, 3]}, "prefill")
    assert model.forward(ints([1, 2, 3]), [part], ints([])).shape == (0, 97)
