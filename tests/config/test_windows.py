"""Which layers slide: both gates, both spellings, every contradiction (transformers#38002, #35896, minefield#107)."""

from itertools import product
from typing import Any

import pytest

from teachkv.config import ModelConfig
from teachkv.errors import ConfigError
from tests.toys import NULL, tiny_config

S, F = "sliding_attention", "full_attention"


def windows(family: str = "qwen2", **changes: Any) -> tuple[int | None, ...]:
    return ModelConfig.from_dict(tiny_config(family, **changes)).windows


def notes(family: str = "qwen2", **changes: Any) -> str:
    return "; ".join(ModelConfig.from_dict(tiny_config(family, **changes)).notes)


@pytest.mark.case("huggingface/transformers#38002")
@pytest.mark.kills("window-flag/removed")
@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_window_without_the_flag_is_full_attention(family: str) -> None:
    changes = {"sliding_window": 32768, "max_window_layers": 0}
    assert windows(family, **changes, use_sliding_window=False) == (None, None)
    assert windows(family, **changes) == (None, None)
    assert "use_sliding_window is false" in notes(family, **changes, use_sliding_window=False)
    assert "absent, which means false" in notes(family, **changes)


@pytest.mark.case("huggingface/transformers#35896")
@pytest.mark.kills("window-threshold/other-side", "window-threshold/off-by-one")
@pytest.mark.parametrize("threshold", range(6))
def test_layers_at_and_above_the_threshold_slide(threshold: int) -> None:
    found = windows(num_hidden_layers=4, use_sliding_window=True, sliding_window=2, max_window_layers=threshold)
    assert found == tuple(2 if layer in range(threshold, 4) else None for layer in range(4))


@pytest.mark.case("Blackwellboy/model-serving-minefield#107")
def test_the_default_threshold_of_28_gates_a_small_model_off_and_says_so() -> None:
    changes = {"num_hidden_layers": 5, "sliding_window": 4, "use_sliding_window": True}
    assert windows(**changes) == (None,) * 5
    assert "max_window_layers is 28 by default and there are 5 layers" in notes(**changes)
    deep = changes | {"num_hidden_layers": 30}
    assert windows(**deep) == (None,) * 28 + (4, 4)


@pytest.mark.case("Blackwellboy/model-serving-minefield#107")
@pytest.mark.parametrize(("flag", "threshold"), list(product([True, False], [0, 28])))
def test_the_four_combinations_of_the_two_gates_are_each_told_apart(flag: bool, threshold: int) -> None:
    changes = {"num_hidden_layers": 5, "sliding_window": 4, "use_sliding_window": flag, "max_window_layers": threshold}
    assert windows(**changes) == ((4,) * 5 if flag and threshold == 0 else (None,) * 5)
    assert ("gated off" in notes(**changes)) == (not (flag and threshold == 0))


@pytest.mark.parametrize("none", [0, -1, NULL, None])
@pytest.mark.parametrize("family", ["mistral", "qwen2", "qwen3", "llama"])
def test_zero_minus_one_null_and_absent_mean_no_window(family: str, none: object) -> None:
    flags = {} if family in ("mistral", "llama") else {"use_sliding_window": True, "max_window_layers": 0}
    assert windows(family, sliding_window=none, **flags) == (None, None)


def test_mistral_has_no_flag_and_all_its_layers_slide() -> None:
    assert windows("mistral", sliding_window=4) == (4, 4)
    assert windows("mistral", sliding_window=4, max_window_layers=1) == (4, 4)
    assert "use_sliding_window is ignored" in notes("mistral", sliding_window=4, use_sliding_window=False)
    assert "sliding_window is absent" in notes("mistral", sliding_window=None)


def test_llama_has_no_window_and_a_declared_one_is_reported() -> None:
    assert windows("llama", sliding_window=4) == (None, None)
    assert "sliding_window 4 is ignored" in notes("llama", sliding_window=4)


@pytest.mark.case("huggingface/transformers#35896", "huggingface/transformers#31775")
@pytest.mark.parametrize("kinds", [[S, F, F, S], [F, S, S, F], [S, S, S, S], [F, F, F, F]])
def test_layer_types_override_the_threshold(kinds: list[str]) -> None:
    changes = {"num_hidden_layers": 4, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 2}
    assert windows(**changes, layer_types=kinds) == tuple(3 if kind == S else None for kind in kinds)
    assert "max_window_layers is overridden" in notes(**changes, layer_types=kinds)


@pytest.mark.kills("layer-types-need-window/removed")
@pytest.mark.parametrize(
    ("family", "changes", "cure"),
    [
        ("qwen2", {"sliding_window": 3}, "set use_sliding_window to true"),
        ("qwen3", {"sliding_window": 3, "use_sliding_window": False}, "set use_sliding_window to true"),
        ("qwen2", {"use_sliding_window": True}, "set sliding_window"),
        ("mistral", {"sliding_window": NULL}, "set sliding_window"),
        ("llama", {"sliding_window": 3}, "llama models have no window"),
    ],
)
def test_a_sliding_layer_type_without_a_window_is_an_error(family: str, changes: dict[str, Any], cure: str) -> None:
    with pytest.raises(ConfigError, match=f"layer_types lists sliding_attention.*{cure}"):
        windows(family, layer_types=[S, F], **changes)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([F], "1 entries for 2 layers"),
        ([F, F, F], "3 entries for 2 layers"),
        ([F, "chunked_attention"], "entry 1 is 'chunked_attention'"),
        ([F, 7], "entry 1 is '7'"),
        (F, "must be a list"),
    ],
)
def test_wrong_layer_types_are_errors(kinds: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        windows(layer_types=kinds)


def test_an_explicit_list_of_full_layers_needs_no_window() -> None:
    assert windows(layer_types=[F, F]) == (None, None)
