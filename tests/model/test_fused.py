"""Fused decode steps give the bits of the plain ones, and the model says where it has none."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from packed import Bench

from cuda_kernels.fused import launch
from cuda_kernels.registry import make_ops
from teachkv.checkpoint import load_model
from teachkv.fused import FusedModel, fused, refusal
from teachkv.model import Model
from tests.toys import write_tiny

BF16 = np.dtype(ml_dtypes.bfloat16)
PROMPTS = {0: [5, 9, 11], 2: [7], 3: [3, 4, 5, 6, 8, 13, 21]}


def raw_model(folder: Path, family: str = "qwen2", **changes: Any) -> Model:
    loaded = load_model(write_tiny(folder / family, family, **{"head_dim": 16, **changes}))
    return Model(loaded.config, loaded.weights.placed(np, "bfloat16"), make_ops("raw"))


def run(model: Model) -> list[dict[int, Any]]:
    """A ragged prefill and two decode steps: logits of each."""
    bench = Bench(model, 5, 24, {0: 4, 2: 6})
    bench.layers = [(k.astype(BF16), v.astype(BF16)) for k, v in bench.layers]
    steps = [bench.step(PROMPTS, "prefill")]
    return steps + [bench.step({0: [17 + n], 2: [30], 3: [40 + n]}, "decode") for n in range(2)]


@pytest.mark.parametrize("changes", [{}, {"sliding_window": 4, "use_sliding_window": True, "max_window_layers": 1}])
def test_fused_decode_steps_have_the_bits_of_plain_ones(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = raw_model(tmp_path, **changes)
    calls: list[Any] = []
    original = launch.qkv
    monkeypatch.setattr(launch, "qkv", lambda *given: calls.append(0) or original(*given))
    plain = run(model)
    assert not calls
    chosen = fused(model)
    assert isinstance(chosen, FusedModel)
    assert (model.decode_path, chosen.decode_path) == ("plain", "fused")
    ours = run(chosen)
    assert len(calls) == 2 * model.config.num_layers, "two decode steps, and nothing else, run fused"
    for a, b in zip(plain, ours, strict=True):
        for row in PROMPTS:
            assert (np.asarray(a[row]).view(np.uint32) == np.asarray(b[row]).view(np.uint32)).all()


def test_many_rows_take_the_tiles_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = raw_model(tmp_path)
    few = run(fused(model))
    for limit in ("SHORT", "SHORT_HEAD"):
        monkeypatch.setattr(f"teachkv.fused.{limit}", 0)
    many = run(fused(model))
    for row in PROMPTS:
        assert (few[-1][row].view(np.uint32) == many[-1][row].view(np.uint32)).all()


def test_a_prompt_whose_rows_lie_in_panels_has_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = raw_model(tmp_path, hidden_size=64, intermediate_size=128)
    plain, asked = run(model), []
    monkeypatch.setattr("teachkv.fused.panelled", lambda rows, *_: asked.append(rows) or True)
    ours = run(fused(model))
    assert asked == [11] * 2 * model.config.num_layers, "the prefill's eleven tokens, before each of its norms"
    for a, b in zip(plain, ours, strict=True):
        for row in PROMPTS:
            assert (np.asarray(a[row]).view(np.uint32) == np.asarray(b[row]).view(np.uint32)).all()


def test_models_without_fused_kernels_stay_plain(tmp_path: Path) -> None:
    model = raw_model(tmp_path, "qwen3")
    assert fused(model) is model
    assert refusal(model) == "its queries and keys are normed by head"
    plain = raw_model(tmp_path, "llama", head_dim=8)
    assert fused(plain) is plain
    loaded = load_model(write_tiny(tmp_path / "r", "llama"))
    reference = Model(loaded.config, loaded.weights, make_ops("reference"))
    assert fused(reference) is reference
    assert refusal(reference) == "backend 'reference' has no fused kernels"
