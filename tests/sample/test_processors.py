"""Penalties by hand, with their scopes (E10); bias; min_tokens."""

import math

import numpy as np
import pytest
from sampling import OPS, rows, state

from teachkv import LLM
from teachkv.errors import OptionError
from teachkv.sample import SamplingParams, new_state, sample_batch


def processed(params, values, prompt=(), generated=(), **more):
    row = np.array(values, np.float32)
    made = state(params, prompt, vocab_size=len(row), generated=generated, **more)
    assert made.processor_at(made.index) is not None
    made.process(row)
    return row.tolist()


@pytest.mark.kills("repetition-sign/always-divides", "penalty-scope/output-only", "penalty-scope/padding")
@pytest.mark.case("huggingface/text-generation-inference#1765")
def test_repetition_divides_positive_multiplies_negative_once_per_token_prompt_and_output():
    params = SamplingParams(repetition_penalty=2.0)
    values = [1, 2, -3, 4, 0, -1]
    assert processed(params, values, prompt=[1, 2, 1, 1], generated=[3, 3]) == [1, 1, -6, 2, 0, -1]
    assert processed(params, values, prompt=[5]) == [1, 2, -3, 4, 0, -2]
    assert processed(params, values, generated=[0]) == [0.5, 2, -3, 4, 0, -1]


@pytest.mark.case("huggingface/text-generation-inference#1765")
def test_presence_and_frequency_count_the_output_only():
    values = [0, 0, 0, 0]
    both = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    assert processed(both, values, prompt=[0, 0, 0], generated=[1, 2, 2, 2]) == [0, -0.75, -1.25, 0]
    assert processed(SamplingParams(presence_penalty=-1.0), values, prompt=[3], generated=[1, 1]) == [0, 1, 0, 0]
    assert state(both, [0, 0], vocab_size=4).processor_at(0) is None


@pytest.mark.kills("penalty-scope/padding")
@pytest.mark.case("huggingface/text-generation-inference#1765")
def test_a_prompt_shorter_than_its_neighbours_is_not_padded_into_the_penalty():
    """Prompt [5]; token 0 is what a padded row would be filled with, and it is slightly preferred."""
    values = [1.01, 0, 0, 0, 0, 1.0, 1.0]
    params = SamplingParams(repetition_penalty=1.5, temperature=0)
    states = [state(params, [5], vocab_size=7), state(params, [1, 2, 3, 4], vocab_size=7)]
    assert [d.token for d in sample_batch(OPS, rows(values, 2), states)] == [0, 0]


@pytest.mark.case("huggingface/text-generation-inference#1765")
def test_a_prompt_found_in_the_prefix_cache_is_penalised_like_one_computed():
    asked = {"prompt_token_ids": np.random.default_rng(4).integers(0, 256, 40).tolist()}
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, repetition_penalty=1.8, frequency_penalty=0.5)
    with LLM("tiny", seed=0) as llm:
        cold, warm = llm.generate(asked, params), llm.generate(asked, params)
        plain = llm.generate(asked, SamplingParams(temperature=0, max_tokens=8, ignore_eos=True))
    assert (cold[0].num_cached_tokens, warm[0].num_cached_tokens) == (0, 32)
    assert cold[0].outputs[0].token_ids == warm[0].outputs[0].token_ids != plain[0].outputs[0].token_ids


def test_order_is_penalty_then_bias():
    params = SamplingParams(repetition_penalty=2.0, logit_bias={1: 3.0, 2: -math.inf, 0: -1.0})
    assert processed(params, [4, 4, 4, 4], prompt=[1]) == [3, 5, -math.inf, 4]


def test_bias_can_force_and_forbid():
    force = SamplingParams(logit_bias={42: 100.0}, temperature=0)
    assert sample_batch(OPS, rows(np.zeros(97)), [state(force)])[0].token == 42
    forbid = SamplingParams(logit_bias={0: -math.inf}, temperature=0)
    assert sample_batch(OPS, rows(np.zeros(97)), [state(forbid)])[0].token == 1


def test_ids_outside_the_vocabulary_are_refused_before_anything_runs():
    for params in (SamplingParams(logit_bias={97: 1.0}), SamplingParams(stop_token_ids=[97])):
        with pytest.raises(OptionError, match=r"token id 97 is outside the vocabulary 0\.\.96"):
            state(params)
    with pytest.raises(OptionError, match="forbids all 4"):
        state(SamplingParams(logit_bias=dict.fromkeys(range(4), -math.inf)), vocab_size=4)


@pytest.mark.kills("min-tokens/one-early")
def test_min_tokens_forbids_every_ending_until_it_is_reached():
    params = SamplingParams(min_tokens=3, stop_token_ids=[6], temperature=0)
    made = new_state(params, [1], engine_seed=0, request_id=0, vocab_size=97, eos_ids=[5, 7, 200])
    values = np.zeros(97)
    values[[5, 6, 7]] = 10
    tokens = []
    for _ in range(4):
        tokens.append(sample_batch(OPS, rows(values), [made])[0].token)
        made.accept(tokens[-1])
    assert tokens == [0, 0, 0, 5]


def test_min_tokens_that_were_reached_forbid_nothing_though_other_rules_go_on():
    params = SamplingParams(min_tokens=2, stop_token_ids=[6], logit_bias={1: 0.5}, temperature=0)
    made = new_state(params, [1], engine_seed=0, request_id=0, vocab_size=97, eos_ids=[])
    values = np.zeros(97)
    values[6] = 10
    tokens = []
    for _ in range(3):
        tokens.append(sample_batch(OPS, rows(values), [made])[0].token)
        made.accept(tokens[-1])
    assert tokens == [1, 1, 6]


def test_min_tokens_leaves_an_ignored_eos_alone():
    params = SamplingParams(min_tokens=3, ignore_eos=True, temperature=0)
    values = np.zeros(97)
    values[5] = 10
    assert sample_batch(OPS, rows(values), [state(params, eos_ids=[5])])[0].token == 5
