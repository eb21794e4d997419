import dataclasses
import math

import pytest

from teachkv.errors import OptionError, UnknownOption
from teachkv.sample import SamplingParams


def test_defaults_are_those_of_vllm():
    p = SamplingParams()
    assert (p.n, p.temperature, p.top_k, p.top_p, p.min_p, p.seed) == (1, 1.0, 0, 1.0, 0.0, None)
    assert (p.max_tokens, p.min_tokens, p.stop, p.stop_token_ids, p.ignore_eos) == (16, 0, (), (), False)
    assert (p.presence_penalty, p.frequency_penalty, p.repetition_penalty) == (0.0, 0.0, 1.0)
    assert (p.logit_bias, p.logprobs, p.prompt_logprobs, p.logprobs_mode) == ({}, None, None, "raw_logprobs")
    assert (p.skip_special_tokens, p.include_stop_str_in_output) == (True, False)


def test_unknown_names_are_both_kinds_of_error_and_name_the_nearest():
    with pytest.raises(TypeError, match="unknown option 'temprature'; did you mean 'temperature'"):
        SamplingParams(temprature=1)
    with pytest.raises(OptionError, match=r"known: .*top_k"):
        SamplingParams.from_dict({"zzzz": 1})
    with pytest.raises(UnknownOption, match="did you mean 'max_tokens'"):
        SamplingParams.from_dict({"max_token": 1})
    with pytest.raises(TypeError):
        SamplingParams(1)


@pytest.mark.parametrize(
    "bad",
    [
        {"n": 0}, {"n": 1.5}, {"n": True}, {"temperature": -0.1}, {"temperature": math.nan}, {"temperature": math.inf},
        {"temperature": "1"}, {"top_k": -2}, {"top_k": 2.5}, {"top_p": 0.0}, {"top_p": 1.01}, {"top_p": -1},
        {"min_p": -0.1}, {"min_p": 1.5}, {"seed": -1}, {"seed": 2**64}, {"seed": 0.5}, {"max_tokens": -1},
        {"min_tokens": -1}, {"min_tokens": 5, "max_tokens": 4}, {"stop": ""}, {"stop": ["a", ""]}, {"stop": [3]},
        {"stop_token_ids": [-1]}, {"stop_token_ids": ["x"]}, {"ignore_eos": 1}, {"presence_penalty": 2.1},
        {"frequency_penalty": -2.1}, {"repetition_penalty": 0}, {"repetition_penalty": math.inf}, {"logprobs": -2},
        {"prompt_logprobs": -2}, {"logprobs_mode": "log"}, {"logit_bias": {1: 101}}, {"logit_bias": {-1: 1}},
        {"logit_bias": {1: math.nan}}, {"logit_bias": {"a": 1}}, {"n": 2, "temperature": 0},
        {"skip_special_tokens": None}, {"include_stop_str_in_output": "yes"},
    ],
)  # fmt: skip
@pytest.mark.case("rasbt/reasoning-from-scratch#164")
def test_values_out_of_range_are_refused_in_one_line(bad):
    with pytest.raises(OptionError) as caught:
        SamplingParams(**bad)
    assert next(iter(bad)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_edges_of_the_ranges_are_allowed():
    SamplingParams(top_k=-1, top_p=1e-9, min_p=1, seed=2**64 - 1, max_tokens=0, min_tokens=0)
    SamplingParams(max_tokens=None, min_tokens=10**6, logprobs=-1, prompt_logprobs=0, logit_bias={0: -math.inf, 1: 100})
    SamplingParams(stop=None, stop_token_ids=None, logit_bias=None)


def test_lists_are_copied_and_the_record_is_frozen():
    stops, ids, biases = ["a"], [1], {2: 1.0}
    p = SamplingParams(stop=stops, stop_token_ids=ids, logit_bias=biases)
    stops.append("b")
    ids.append(3)
    biases[4] = 2.0
    assert (p.stop, p.stop_token_ids, p.logit_bias) == (("a",), (1,), {2: 1.0})
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.n = 2
    assert dataclasses.replace(p, n=2).stop == ("a",)
    assert SamplingParams(stop="xy").stop == ("xy",)
    assert hash(p) == hash(SamplingParams(stop=["a"], stop_token_ids=[1], logit_bias={2: 1.0}))
    assert p == SamplingParams(stop=["a"], stop_token_ids=[1], logit_bias={2: 1.0})
