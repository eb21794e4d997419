"""Options: unknown names and impossible values are errors that name the way out."""

from dataclasses import replace

import pytest

from teachkv import parts
from teachkv.checkpoint.builtin import tiny
from teachkv.errors import OptionError
from teachkv.options import EngineOptions, free_memory


def test_an_unknown_option_names_its_nearest() -> None:
    with pytest.raises(OptionError, match="did you mean 'max_num_seqs'"):
        EngineOptions.parse({"max_num_seq": 4})


def test_an_option_like_no_other_lists_all() -> None:
    with pytest.raises(OptionError, match="known: max_num_seqs"):
        EngineOptions.parse({"zzz": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("policy", "fifo"),
        ("policy", None),
        ("batch_cache", "paged"),
        ("backend", "cuda"),
        ("max_num_seqs", 0),
        ("max_num_seqs", True),
        ("max_num_seqs", 2.5),
        ("max_model_len", -1),
        ("prefill_floor_steps", -1),
        ("speculative_tokens", -2),
        ("invariance", "maybe"),
        ("invariance", 1),
        ("seed", -1),
    ],
)
def test_an_impossible_value_is_named(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        EngineOptions.parse({name: value})


def test_the_batch_cache_follows_the_policy_unless_told() -> None:
    assert EngineOptions(policy="bucketed").effective_batch_cache() == "rebuild"
    assert EngineOptions(policy="ragged").effective_batch_cache() == "incremental"
    assert EngineOptions(policy="bucketed", batch_cache="incremental").effective_batch_cache() == "incremental"


def test_the_kv_budget_is_a_share_of_free_memory() -> None:
    assert 0 < EngineOptions().effective_kv_budget() < free_memory()
    assert EngineOptions(kv_budget=7).effective_kv_budget() == 7


@pytest.mark.parametrize(
    ("gigabytes", "vocabulary", "tokens"),
    [(141, 151_936, 8192), (80, 151_936, 8192), (24, 151_936, 4096), (24, 32_000, 8192), (2, 151_936, 512)],
)
def test_a_gpu_takes_as_many_prompt_tokens_a_step_as_their_logits_fit(
    gigabytes: int, vocabulary: int, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "device_memory", lambda: (0, gigabytes << 30))
    config = replace(tiny().config, vocab_size=vocabulary)
    assert parts.step_tokens(config, on_device=True) == tokens
    assert parts.step_tokens(config, on_device=False) == 512
