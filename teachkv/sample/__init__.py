"""Sampling: what a request may ask for, its own random numbers, and the draw."""

from teachkv.sample.logprobs import Logprob, TokenLogprobs, log_softmax, prompt_logprobs
from teachkv.sample.params import SamplingParams
from teachkv.sample.philox import derived_seed, uniform
from teachkv.sample.sampler import Draw, Drawing, begin_draw, finish_draw, sample_batch
from teachkv.sample.state import SampleState, new_state, refuse_foreign

__all__ = [
    "Draw",
    "Drawing",
    "Logprob",
    "SampleState",
    "SamplingParams",
    "TokenLogprobs",
    "begin_draw",
    "derived_seed",
    "finish_draw",
    "log_softmax",
    "new_state",
    "prompt_logprobs",
    "refuse_foreign",
    "sample_batch",
    "uniform",
]
