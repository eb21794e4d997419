"""From a mask to a kernel: what each answer of the masker does, and what a backend must refuse."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from packed import OPS, Bench, ints, load, whole

from teachkv.attention import Kind, attend, mask_must_be_applied_as_bias
from teachkv.errors import UnsupportedMask
from teachkv.kv.view import Geometry, LayerView
from teachkv.masks import CausalByKernel, ExplicitBias, Mask, Masker, NoMask
from tests.toys import write_tiny

CU = ints([0, 1, 3])


def layer(pads: list[int] | None = None) -> LayerView:
    random = np.random.default_rng(0)
    k, v = (random.standard_normal((2, 2, 12, 8), dtype=np.float32) for _ in "kv")
    pad = None if pads is None else ints(pads)
    return LayerView(k, v, Geometry(ints([1, 0]), pad, ints([10, 9]), ints([9, 7, 8])))


def queries() -> Any:
    return np.random.default_rng(1).standard_normal((3, 4, 8), dtype=np.float32)


@pytest.mark.parametrize("kind", ["decode", "prefill"])
@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.kills("as-bias/one-too-wide")
def test_the_explicit_twin_gives_the_same_attention(kind: Kind, window: int | None) -> None:
    view = layer([2, 3])
    mask = Masker.sliding_window_causal(view.geometry, CU, window)
    assert isinstance(mask, CausalByKernel)
    bias = Masker.as_bias(mask, view.geometry, CU)
    by_kernel = attend(OPS, kind, queries(), view, CU, mask, 0.5)
    by_bias = attend(OPS, kind, queries(), view, CU, bias, 0.5)
    np.testing.assert_allclose(by_bias, by_kernel, atol=1e-6)
    unmasked = attend(OPS, kind, queries(), view, CU, NoMask(), 0.5)
    assert np.abs(unmasked - by_kernel).max() > 1e-2


@pytest.mark.kills("dispatch/drops-bias")
def test_a_bias_reaches_the_scores() -> None:
    view = layer()
    bias = np.zeros((2, 1, 2, 10), np.float32)
    bias[..., :5] = -np.inf
    got = attend(OPS, "decode", queries(), view, CU, ExplicitBias(bias), 0.5)
    view.k[:, :, :5], view.v[:, :, :5] = np.nan, np.nan
    assert np.isfinite(got).all()
    assert attend(OPS, "decode", queries(), view, CU, ExplicitBias(bias), 0.5).tobytes() == got.tobytes()


def test_a_backend_without_bias_refuses_it_and_takes_the_rest() -> None:
    device = replace(OPS, takes_bias=False, backend="raw")
    bias = ExplicitBias(np.zeros((2, 1, 2, 10), np.float32))
    with pytest.raises(UnsupportedMask, match="'raw' takes no attention bias"):
        attend(device, "prefill", queries(), layer(), CU, bias, 0.5)
    attend(device, "prefill", queries(), layer([1, 1]), CU, CausalByKernel(ints([1, 1]), 3), 0.5)


def test_a_mask_nobody_knows_is_refused() -> None:
    with pytest.raises(UnsupportedMask, match="type str"):
        attend(OPS, "decode", queries(), layer(), CU, cast(Mask, "causal"), 0.5)


def test_only_an_explicit_bias_must_be_added() -> None:
    assert mask_must_be_applied_as_bias(ExplicitBias(np.zeros((1, 1, 1, 1), np.float32)))
    assert not mask_must_be_applied_as_bias(NoMask())
    assert not mask_must_be_applied_as_bias(CausalByKernel(None, 3))


def test_the_kind_chooses_the_kernel() -> None:
    called: list[str] = []

    def spy(name: str) -> Any:
        return lambda *args, **more: called.append(name) or queries()

    ops = replace(OPS, attention_decode_ragged=spy("decode"), attention_prefill=spy("prefill"))
    for kind in ("decode", "prefill"):
        attend(ops, cast(Kind, kind), queries(), layer(), CU, NoMask(), 0.5)
    assert called == ["decode", "prefill"]


@pytest.mark.case("huggingface/transformers#31775")
def test_each_layer_asks_through_its_own_door_once_per_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four layers, two of them sliding, one geometry: one question per door and pass, not one per layer."""
    types = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
    changes = {"use_sliding_window": True, "sliding_window": 3, "num_hidden_layers": 4, "layer_types": types}
    model = load(write_tiny(tmp_path / "m", "qwen2", **changes))
    asked: list[tuple[str, int | None]] = []

    class Recorder:
        @staticmethod
        def causal(geometry: Any, cu: Any) -> Any:
            asked.append(("causal", None))
            return Masker.causal(geometry, cu)

        @staticmethod
        def sliding_window_causal(geometry: Any, cu: Any, window: int | None) -> Any:
            asked.append(("sliding", window))
            return Masker.sliding_window_causal(geometry, cu, window)

    monkeypatch.setattr("teachkv.placing.Masker", Recorder)
    Bench(model, 1, 9).step({0: [1, 2, 3, 4, 5]})
    assert asked == [("sliding", 3), ("causal", None)]


def test_a_bias_from_outside_replaces_the_mask(tmp_path: Path) -> None:
    """The causal mask given as a bias changes nothing; hiding the first token does."""
    model = load(write_tiny(tmp_path / "m", "llama"))
    ids = [5, 6, 7, 8]
    causal = np.where(np.tri(4, dtype=bool), np.float32(0), np.float32(-np.inf))[None, None]
    np.testing.assert_allclose(whole(model, ids, bias=causal), whole(model, ids), atol=1e-5)
    hidden = causal.copy()
    hidden[..., 1:, 0] = -np.inf
    assert np.abs(whole(model, ids, bias=hidden) - whole(model, ids))[1:].max() > 1e-2
